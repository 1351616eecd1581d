// frame.h — the main of a program that runs one kernel.
#pragma once

#include <functional>
#include <memory>

#include <CLI/CLI.hpp>

#include "bench/far/kernels/memory.h"

namespace farside::bench {

/// Where the memory of a program's kernels is.
struct KernelMemory {
  std::function<void(CLI::App&)> add_options;
  std::function<std::unique_ptr<Memory>(std::uint64_t bytes)> open;  ///< called when the options are read
};

/// Runs the kernel that is named and says on one line, in JSON, how long it took and what it computed. With --wait says
/// "ready" when its memory is filled, and goes on when it is told to. Returns the exit code: 0, 1 (failed), 2 (used
/// wrongly).
int run_kernel(int argc, char** argv, const KernelMemory& where);

}  // namespace farside::bench
