#include "bench/far/kernels/heap_memory.h"

#include "farside/far/heap.h"
#include "farside/far/pool.h"

namespace farside::bench {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t kSlackBytes = 16 << 20;

class HeapMemory final : public Memory {
 public:
  HeapMemory(const HeapMemoryOptions& options, std::uint64_t bytes)
      : heap_(far::open_pool({.bytes = bytes + kSlackBytes,
                              .protection = far::Protection::trust_nodes,
                              .runtime_dir = options.runtime_dir}),
              {.local_bytes = options.local_bytes}),
        hints_(options.hints) {}

  void* take(std::size_t bytes, Use use) override {
    void* const begin = heap_.allocate(bytes, kAlignment);
    if (hints_) heap_.advise(begin, bytes, use == Use::updated ? far::Hint::updated : far::Hint::read_mostly);
    return begin;
  }
  [[nodiscard]] Traffic traffic() const override {
    const far::HeapStatistics now = heap_.statistics();
    return {now.bytes_in, now.bytes_out};
  }

 private:
  far::Heap heap_;
  bool hints_;
};

}  // namespace

std::unique_ptr<Memory> open_heap_memory(const HeapMemoryOptions& options, std::uint64_t bytes) {
  return std::make_unique<HeapMemory>(options, bytes);
}

}  // namespace farside::bench
