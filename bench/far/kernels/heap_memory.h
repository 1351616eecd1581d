// heap_memory.h — memory out of a far heap on a pool.
#pragma once

#include <filesystem>
#include <memory>

#include "bench/far/kernels/memory.h"

namespace farside::bench {

struct HeapMemoryOptions {
  std::uint64_t local_bytes = 0;           ///< the heap's budget
  bool hints = false;                      ///< it is told what is updated and what is mostly read
  std::filesystem::path runtime_dir = {};  ///< of the pool; empty: the one that programs find
};

[[nodiscard]] std::unique_ptr<Memory> open_heap_memory(const HeapMemoryOptions& options, std::uint64_t bytes);

}  // namespace farside::bench
