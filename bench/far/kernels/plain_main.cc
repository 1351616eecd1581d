// far-kernel: a kernel in ordinary memory. It knows nothing of farside: what unmodified programs get is measured with
// it.
#include "bench/far/kernels/frame.h"
#include "bench/far/kernels/plain_memory.h"

int main(int argc, char** argv) {
  farside::bench::PlainMemoryOptions options;
  return farside::bench::run_kernel(
      argc, argv,
      {.add_options =
           [&](CLI::App& app) {
             app.add_option("--map", options.map, "Keep the arrays in this file, which is made and mapped");
             app.add_flag("--lock", options.locks, "Lock what is updated into memory");
           },
       .open = [&](std::uint64_t bytes) { return farside::bench::open_plain_memory(options, bytes); }});
}
