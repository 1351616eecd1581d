// plain_memory.h — memory without farside: the C library's, or a mapped file. What the kernel swaps is its own affair.
#pragma once

#include <filesystem>
#include <memory>

#include "bench/far/kernels/memory.h"

namespace farside::bench {

struct PlainMemoryOptions {
  std::filesystem::path map = {};  ///< a file that is made, and mapped; empty: the C library's memory
  bool locks = false;              ///< what is updated is locked into memory
};

[[nodiscard]] std::unique_ptr<Memory> open_plain_memory(const PlainMemoryOptions& options, std::uint64_t bytes);

}  // namespace farside::bench
