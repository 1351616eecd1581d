#include "bench/far/places.h"

#include <fmt/format.h>

#include "farside/base/error.h"

namespace farside::bench {

namespace {

// Each of two nodes gets half of what the largest kernel has.
const char* lent(const Options& options) { return options.full ? "2G" : "512M"; }

}  // namespace

Places::Places(const Options& options)
    : pool_({.nodes = 2,
             .roles = fmt::format("--cache 16M --far {}", lent(options)),
             .environment = direct().environment}) {}

KernelRun Places::in_memory(const ScaledKernel& kernel) const {
  return run_kernel(kernel.name() + " in memory", kernel.in_memory());
}

KernelRun Places::by_pager(const ScaledKernel& kernel, unsigned megabytes, std::vector<std::string> more) const {
  Contender::Program program = kernel.in_heap(megabytes, std::move(more));
  program.environment = pool_.environment();
  return run_kernel(kernel.name() + " by the pager", program);
}

KernelRun Places::by_command(const ScaledKernel& kernel, unsigned megabytes,
                             const std::vector<std::string>& options) const {
  constexpr std::uint64_t kMoreOfAllocator = 64 << 20;
  Contender::Program program = kernel.in_memory();
  std::vector<std::string> command{sibling_program("../../bin/farside"),
                                   "far",
                                   "--trust-nodes",
                                   "--local",
                                   std::to_string(kernel.local_bytes(megabytes)),
                                   "--far",
                                   std::to_string(kernel.bytes() + kMoreOfAllocator)};
  command.insert(command.end(), options.begin(), options.end());
  command.emplace_back("--");
  command.insert(command.end(), program.command.begin(), program.command.end());
  program.command = std::move(command);
  program.environment = pool_.environment();
  return run_kernel(kernel.name() + " below farside far", program);
}

KernelRun Places::by_swap(const ScaledKernel& kernel, unsigned megabytes, std::uint64_t swap_bytes,
                          const std::vector<std::string>& more) const {
  // Linux takes a small group's memory to be out, now and then, with nearly all of its swap to spare.
  constexpr int kTries = 4;
  const SwapFile swap(folder_.path() / "swap", swap_bytes);
  for (int attempt = 1;; ++attempt) {
    const MemoryCgroup limit(kernel.local_bytes(megabytes));
    try {
      return run_kernel(kernel.name() + " by swap", limit.run(kernel.in_memory(more)));
    } catch (const Error&) {
      if (attempt == kTries || !limit.has_killed()) throw;
    }
  }
}

KernelRun Places::by_file_map(const ScaledKernel& kernel, unsigned megabytes, std::vector<std::string> more) const {
  const MemoryCgroup limit(kernel.local_bytes(megabytes));
  more.insert(more.end(), {"--map", folder_.path() / "map"});
  return run_kernel(kernel.name() + " by file map", limit.run(kernel.in_memory(std::move(more))));
}

}  // namespace farside::bench
