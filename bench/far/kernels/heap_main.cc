// far-kernel-in-heap: the same kernels in a far heap, of which --local is here.
#include "bench/far/kernels/frame.h"
#include "bench/far/kernels/heap_memory.h"

int main(int argc, char** argv) {
  farside::bench::HeapMemoryOptions options;
  return farside::bench::run_kernel(
      argc, argv,
      {.add_options =
           [&](CLI::App& app) {
             app.add_option("--local", options.local_bytes, "As much may be in this machine's memory")
                 ->required()
                 ->transform(CLI::AsSizeValue(false));
             app.add_flag("--hints", options.hints, "Tell the heap what is updated and what is mostly read");
           },
       .open = [&](std::uint64_t bytes) { return farside::bench::open_heap_memory(options, bytes); }});
}
