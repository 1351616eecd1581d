// program.h — the frame of every benchmark program: its options, and where its results go.
//
//   int main(int argc, char** argv) {
//     return farside::bench::run_program(argc, argv, "fabric", "one-sided operations ...", measure);
//   }
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "bench/harness/report.h"

namespace farside::bench {

struct Options {
  bool quick = false;
  bool full = false;  ///< where a benchmark leaves something out that takes minutes
  unsigned repetitions = 7;
  std::filesystem::path plots;  ///< the folder they go to; empty: none wanted

  /// How long one contender is timed in one repetition of a measurement.
  [[nodiscard]] std::chrono::milliseconds budget() const { return std::chrono::milliseconds(quick ? 2 : 20); }
};

using Benchmark = std::function<void(const Options&, Report&)>;

/// Reads --json FILE, --plot DIR, --repetitions N, --quick and --full, measures, prints the table and writes the files.
/// Returns the exit code: 0, 1 (failed), 2 (used wrongly).
int run_program(int argc, char** argv, const std::string& name, const std::string& about, const Benchmark& measure);

/// Says on a terminal what is being measured; nothing in a pipe.
void show_progress(const std::string& step);

}  // namespace farside::bench
