#include "bench/comm/work.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>
#include <stdexcept>

namespace farside::bench {

std::size_t Work::place_of(const std::string& name) const {
  const auto found = std::ranges::find(operations_, name, &Operation::name);
  if (found == operations_.end()) throw std::invalid_argument("no operation: \"" + name + "\"");
  return static_cast<std::size_t>(found - operations_.begin());
}

// First a few rounds to see how many fit into the budget; those warm up as well. Always an even number, so that what
// goes to and fro ends where it began.
Timing Work::time_together(Command command, Nanoseconds budget, const Tell& tell) const {
  using Clock = std::chrono::steady_clock;
  const auto make = [&](std::uint64_t rounds) {
    const Clock::time_point start = Clock::now();
    operations_[command.operation].make(command.amount, rounds);
    return Nanoseconds(Clock::now() - start);
  };
  const auto tell_of = [&](std::uint64_t rounds) { tell({command.operation, command.amount, rounds}); };
  constexpr std::uint64_t kTrial = 4;
  constexpr std::uint64_t kBatches = 10;
  tell_of(2 * kTrial);
  (void)make(kTrial);
  const Nanoseconds trial = make(kTrial) / kTrial;
  const auto pairs = static_cast<std::uint64_t>(std::max(1.0, budget / kBatches / trial / 2));
  tell_of(kTrial + 2 * pairs * kBatches);
  (void)make(kTrial);  // until all have woken up
  std::vector<double> batches;
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
    batches.push_back(make(2 * pairs).count() / static_cast<double>(2 * pairs));
  }
  return timing_of(std::move(batches), 0);
}

void Work::answer_questions(const Tell& tell) const {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t amount = 0;
    double budget_ms = 0;
    if (!(words >> name >> amount >> budget_ms)) throw std::invalid_argument("no question: \"" + line + "\"");
    const std::size_t place = place_of(name);
    const std::chrono::duration<double, std::milli> budget(budget_ms);
    const Operation& operation = operations_[place];
    const Timing timing = operation.together
                              ? time_together({.operation = place, .amount = amount, .rounds = 0}, budget, tell)
                              : time_operations([&](std::uint64_t rounds) { operation.make(amount, rounds); }, budget);
    std::cout << timing.to_line() << std::endl;
  }
  tell({.operation = operations_.size(), .amount = 0, .rounds = 0});
}

bool Work::obey(const Command& command) const {
  if (command.operation >= operations_.size()) return false;
  operations_[command.operation].make(command.amount, command.rounds);
  return true;
}

void compute() {
  static volatile std::uint64_t result = 0;  // so that it is not left out
  std::uint64_t value = result;
  for (int step = 0; step < 400'000; ++step) value = value * 6364136223846793005U + 1442695040888963407U;
  result = value;
}

}  // namespace farside::bench
