// kernel_run.h — one run of a kernel, in a process of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/far/kernels/kernel.h"
#include "bench/harness/contender.h"
#include "bench/harness/program.h"

namespace farside::bench {

struct KernelRun {
  struct Sample {
    double seconds;
    double megabytes_in;  ///< since it began
    double megabytes_out;
  };

  double seconds;
  double operations;
  std::uint64_t checked;
  double megabytes_in;
  double megabytes_out;
  std::vector<Sample> samples;
};

/// A kernel in the size that is measured: the paper's memory, or a part of it, and so of what is kept here.
class ScaledKernel {
 public:
  ScaledKernel(std::string_view name, const Options& options);

  [[nodiscard]] std::string name() const { return std::string(kind_.name); }
  [[nodiscard]] std::uint64_t bytes() const { return kind_.size.bytes / divisor_; }
  [[nodiscard]] std::uint64_t local_bytes(unsigned megabytes) const { return megabytes * 1'000'000ULL / divisor_; }
  [[nodiscard]] double expansion(unsigned megabytes) const {
    return static_cast<double>(bytes()) / static_cast<double>(local_bytes(megabytes));
  }
  [[nodiscard]] std::uint64_t divisor() const { return divisor_; }

  /// In ordinary memory, and in a far heap of which so much is here.
  [[nodiscard]] Contender::Program in_memory(std::vector<std::string> more = {}) const;
  [[nodiscard]] Contender::Program in_heap(unsigned megabytes, std::vector<std::string> more = {}) const;

 private:
  [[nodiscard]] Contender::Program program(const std::string& file, std::vector<std::string> more) const;

  const KernelKind& kind_;
  std::uint64_t divisor_;
  std::chrono::seconds timeout_;
};

/// Throws Error when it fails, or takes too long.
[[nodiscard]] KernelRun run_kernel(const std::string& name, const Contender::Program& program);

}  // namespace farside::bench
