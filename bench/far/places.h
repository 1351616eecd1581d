// places.h — where the memory of a measured kernel may be: a pool that holds what is not here, and the kernel's swap.
#pragma once

#include <cstdint>

#include "bench/far/kernel_run.h"
#include "bench/far/memory_cgroup.h"
#include "bench/far/swap_file.h"
#include "bench/harness/entrant.h"
#include "bench/harness/pool.h"

namespace farside::bench {

class Places {
 public:
  explicit Places(const Options& options);

  [[nodiscard]] KernelRun in_memory(const ScaledKernel& kernel) const;
  [[nodiscard]] KernelRun by_pager(const ScaledKernel& kernel, unsigned megabytes,
                                   std::vector<std::string> more = {}) const;
  /// The same program as in memory, below `farside far`. Throws Error also when that may not be done here.
  [[nodiscard]] KernelRun by_command(const ScaledKernel& kernel, unsigned megabytes,
                                     const std::vector<std::string>& options = {}) const;
  /// Throws Error also when this may not be done here.
  [[nodiscard]] KernelRun by_swap(const ScaledKernel& kernel, unsigned megabytes, std::uint64_t swap_bytes,
                                  const std::vector<std::string>& more = {}) const;
  /// Its room for files of the benchmark, until it ends.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  /// A file on this machine's disk.
  [[nodiscard]] KernelRun by_file_map(const ScaledKernel& kernel, unsigned megabytes,
                                      std::vector<std::string> more = {}) const;

 private:
  const Pool pool_;
  const Folder folder_;
};

}  // namespace farside::bench
