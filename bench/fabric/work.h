// work.h — what the contenders of `bench fabric` do, and how they are asked for it.
//
// A question is "<operation> <bytes> <depth> <budget in ms>", its answer a Timing. One round of work is `depth`
// operations posted together and then awaited; for WRITE, made visible as well. Operation i of a round goes to the
// i-th piece of a region of kRegionBytes, wrapping around, and to the same place of a private buffer.
#pragma once

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "bench/harness/timing.h"

namespace farside::bench {

inline constexpr std::uint64_t kLargestBytes = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kDeepest = 64;
inline constexpr std::uint64_t kRegionBytes = 4 * kLargestBytes;

enum class Operation { read, write, fetch_add };

struct Work {
  Operation operation;
  std::uint64_t bytes;
  std::uint64_t depth;

  [[nodiscard]] std::uint64_t offset(std::uint64_t i) const { return i * bytes % kRegionBytes; }
};

inline const char* to_string(Operation operation) {
  switch (operation) {
    case Operation::read: return "READ";
    case Operation::write: return "WRITE+flush";
    case Operation::fetch_add: return "FETCH_ADD";
  }
  return "";
}

inline std::string question(const Work& work, std::chrono::milliseconds budget) {
  std::ostringstream line;
  line << to_string(work.operation) << ' ' << work.bytes << ' ' << work.depth << ' ' << budget.count();
  return line.str();
}

inline Operation parse_operation(const std::string& name) {
  for (const Operation operation : {Operation::read, Operation::write, Operation::fetch_add}) {
    if (name == to_string(operation)) return operation;
  }
  throw std::invalid_argument("no operation: \"" + name + "\"");
}

/// A contender's main loop, until its input ends. `run(work, rounds)` does the work.
template <class Run>
void answer_questions(Run&& run) {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string operation;
    Work work{};
    double budget_ms = 0;
    if (!(words >> operation >> work.bytes >> work.depth >> budget_ms)) {
      throw std::invalid_argument("no question: \"" + line + "\"");
    }
    work.operation = parse_operation(operation);
    Timing timing = time_operations([&](std::uint64_t rounds) { run(work, rounds); },
                                    std::chrono::duration<double, std::milli>(budget_ms));
    const auto depth = static_cast<double>(work.depth);
    timing.p50_ns /= depth;
    timing.p99_ns /= depth;
    std::cout << timing.to_line() << std::endl;
  }
}

}  // namespace farside::bench
