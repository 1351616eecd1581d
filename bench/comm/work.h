// work.h — what the contenders of `bench comm` do, and how they are asked for it.
//
// A contender is a job of several ranks. Rank 0 reads questions, "<operation> <bytes> <budget in ms>", and answers each
// with a Timing. In what is done by one rank the others sleep. In what is done by all they take part: rank 0 tells them
// how many rounds there will be, and times its own.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/harness/timing.h"

namespace farside::bench {

inline constexpr std::uint64_t kLargestBytes = std::uint64_t{4} << 20;

enum class Operation : std::uint64_t {
  put,            ///< and wait until it is there
  put_signal,     ///< the same with a word that is set after the data
  put_count,      ///< or added to
  issue,          ///< a put that is not waited for; all are in the end
  barrier,        ///< all ranks
  fuzzy_barrier,  ///< all ranks: begin, and wait at once
  end,            ///< no more questions
};

inline constexpr std::array<const char*, 6> kOperationNames{"put",   "put+signal", "put+count",
                                                            "issue", "barrier",    "begin+wait"};

[[nodiscard]] inline const char* to_string(Operation operation) {
  return kOperationNames.at(static_cast<std::size_t>(operation));
}

[[nodiscard]] inline bool is_for_all(Operation operation) {
  return operation == Operation::barrier || operation == Operation::fuzzy_barrier;
}

/// What rank 0 tells the others to take part in.
struct Command {
  Operation operation;
  std::uint64_t rounds;
};

[[nodiscard]] inline std::string question(Operation operation, std::uint64_t bytes, std::chrono::milliseconds budget) {
  std::ostringstream line;
  line << to_string(operation) << ' ' << bytes << ' ' << budget.count();
  return line.str();
}

[[nodiscard]] inline Operation parse_operation(const std::string& name) {
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    if (name == kOperationNames.at(i)) return static_cast<Operation>(i);
  }
  throw std::invalid_argument("no operation: \"" + name + "\"");
}

/// Times rounds that all ranks make. First a few to see how many fit into the budget; those warm up as well.
/// `command` tells the others, `round` makes one.
template <class Tell, class Round>
Timing time_together(Operation operation, std::chrono::duration<double, std::milli> budget, Tell&& tell,
                     Round&& round) {
  using Clock = std::chrono::steady_clock;
  const auto make = [&](std::uint64_t rounds) {
    const Clock::time_point start = Clock::now();
    for (std::uint64_t i = 0; i < rounds; ++i) round();
    return Nanoseconds(Clock::now() - start);
  };
  constexpr std::uint64_t kTrial = 50;
  constexpr std::uint64_t kBatches = 40;
  tell(Command{operation, 2 * kTrial});
  (void)make(kTrial);
  const Nanoseconds trial = make(kTrial) / kTrial;
  const auto rounds = static_cast<std::uint64_t>(std::max(1.0, budget / kBatches / trial));
  tell(Command{operation, kTrial + rounds * kBatches});
  (void)make(kTrial);  // until all have woken up
  std::vector<double> batches;
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
    batches.push_back(make(rounds).count() / static_cast<double>(rounds));
  }
  return timing_of(std::move(batches), 0);
}

/// Rank 0's main loop, until its input ends. `alone(operation, bytes, rounds)` makes rounds that need nobody else.
template <class Alone, class Tell, class Round>
void answer_questions(Alone&& alone, Tell&& tell, Round&& round) {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t bytes = 0;
    double budget_ms = 0;
    if (!(words >> name >> bytes >> budget_ms)) throw std::invalid_argument("no question: \"" + line + "\"");
    const Operation operation = parse_operation(name);
    const std::chrono::duration<double, std::milli> budget(budget_ms);
    const Timing timing = is_for_all(operation)
                              ? time_together(operation, budget, tell, [&] { round(operation); })
                              : time_operations([&](std::uint64_t rounds) { alone(operation, bytes, rounds); }, budget);
    std::cout << timing.to_line() << std::endl;
  }
  tell(Command{Operation::end, 0});
}

}  // namespace farside::bench
