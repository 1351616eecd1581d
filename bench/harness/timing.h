// timing.h — how long an operation takes, by a clock that costs more than some operations do.
//
// Operations are timed in batches of at least kShortestBatch, so that reading the clock twice (about 50 ns) is at most
// 1 % of what is measured. A percentile is one over batches: of an operation shorter than a batch, its p99 says what
// the slow batches cost on average, not what the slowest single operations do.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/harness/statistics.h"

namespace farside::bench {

using Nanoseconds = std::chrono::duration<double, std::nano>;

inline constexpr Nanoseconds kShortestBatch = std::chrono::microseconds(5);

/// Of one operation, in nanoseconds.
struct Timing {
  double p50_ns;
  double p99_ns;
  double batches;      ///< that were timed: a p99 means little below a hundred
  double clock_share;  ///< the part of the measured time that the clock itself took

  [[nodiscard]] std::string to_line() const {
    char line[120];  // NOLINT(modernize-avoid-c-arrays): also compiled into programs that are kept small
    std::snprintf(line, sizeof line, "%.17g %.17g %.17g %.17g", p50_ns, p99_ns, batches, clock_share);
    return line;
  }
  /// Throws std::runtime_error on a line that to_line did not write.
  static Timing from_line(const std::string& line) {
    Timing timing{};
    if (std::sscanf(line.c_str(), "%lg %lg %lg %lg", &timing.p50_ns, &timing.p99_ns, &timing.batches,
                    &timing.clock_share) != 4) {
      throw std::runtime_error("not a timing: \"" + line + "\"");
    }
    return timing;
  }
};

/// What a list of batches, each in nanoseconds an operation, amounts to.
inline Timing timing_of(std::vector<double> batches, double clock_share) {
  std::sort(batches.begin(), batches.end());
  return {quantile(batches, 0.5), quantile(batches, 0.99), static_cast<double>(batches.size()), clock_share};
}

/// Times `run(n)`, which does n operations, for about `budget`; at least three batches.
template <class Run>
Timing time_operations(Run&& run, Nanoseconds budget) {
  using Clock = std::chrono::steady_clock;
  const auto elapsed = [](Clock::time_point since) { return Nanoseconds(Clock::now() - since); };
  const auto time_batch = [&](std::uint64_t operations) {
    const Clock::time_point start = Clock::now();
    run(operations);
    return elapsed(start);
  };
  Nanoseconds clock_cost = kShortestBatch;
  for (int i = 0; i < 100; ++i) clock_cost = std::min(clock_cost, elapsed(Clock::now()));
  const auto shortest_of = [&](std::uint64_t operations) {  // any of them may have been interrupted
    Nanoseconds shortest = time_batch(operations);
    for (int tries = 1; tries < (shortest < std::chrono::milliseconds(1) ? 5 : 2); ++tries) {
      shortest = std::min(shortest, time_batch(operations));
    }
    return shortest;
  };
  std::uint64_t operations = 1;
  while (shortest_of(operations) < kShortestBatch) operations *= 2;  // warms up as well

  std::vector<double> batches;
  batches.reserve(static_cast<std::size_t>(budget / kShortestBatch) + 3);
  Nanoseconds total{0};
  const Clock::time_point start = Clock::now();
  do {
    const Nanoseconds batch = time_batch(operations);
    total += batch;
    batches.push_back(batch.count() / static_cast<double>(operations));
  } while (elapsed(start) < budget || batches.size() < 3);
  const double clock_share = clock_cost * static_cast<double>(batches.size()) / total;
  return timing_of(std::move(batches), clock_share);
}

}  // namespace farside::bench
