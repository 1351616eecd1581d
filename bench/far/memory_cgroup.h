// memory_cgroup.h — a limit to the memory of programs, by the kernel: what exceeds it is swapped. Version 1 and 2.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/harness/contender.h"

namespace farside::bench {

/// Removed with this object. Throws Error when it cannot be made: it takes root, and a kernel that has it.
class MemoryCgroup {
 public:
  explicit MemoryCgroup(std::uint64_t bytes);
  ~MemoryCgroup();
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  /// The program, started in it.
  [[nodiscard]] Contender::Program run(Contender::Program program) const;
  /// Whether the kernel has ended one for want of memory.
  [[nodiscard]] bool has_killed() const;

 private:
  std::filesystem::path path_;
  std::filesystem::path events_;
};

}  // namespace farside::bench
