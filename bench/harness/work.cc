#include "bench/harness/work.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>
#include <stdexcept>

namespace farside::bench {

// The harness times it, in batches, which are not measured twice.
void Work::alone(std::string name, Make make) {
  const Measure measure = [make = std::move(make)](std::uint64_t amount, std::uint64_t rounds) {
    make(amount, rounds);
    return Nanoseconds{};
  };
  operations_.push_back({std::move(name), false, measure});
}

void Work::together(std::string name, Make make) {
  together_in_part(std::move(name), [make = std::move(make)](std::uint64_t amount, std::uint64_t rounds) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    make(amount, rounds);
    return Nanoseconds(Clock::now() - start);
  });
}

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
    return operations_[command.operation].measure(command.amount, rounds);
  };
  const auto tell_of = [&](std::uint64_t rounds) { tell({command.operation, command.amount, rounds}); };
  constexpr std::uint64_t kTrial = 4;
  constexpr std::uint64_t kBatches = 10;
  tell_of(2 * kTrial);
  (void)make(kTrial);
  const Clock::time_point start = Clock::now();
  (void)make(kTrial);
  const Nanoseconds trial = Nanoseconds(Clock::now() - start) / kTrial;
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
    const Timing timing =
        operation.together
            ? time_together({.operation = place, .amount = amount, .rounds = 0}, budget, tell)
            : time_operations([&](std::uint64_t rounds) { (void)operation.measure(amount, rounds); }, budget);
    std::cout << timing.to_line() << std::endl;
  }
  tell({.operation = operations_.size(), .amount = 0, .rounds = 0});
}

bool Work::obey(const Command& command) const {
  if (command.operation >= operations_.size()) return false;
  (void)operations_[command.operation].measure(command.amount, command.rounds);
  return true;
}

std::string question(const std::string& operation, std::uint64_t amount, std::chrono::milliseconds budget) {
  return operation + ' ' + std::to_string(amount) + ' ' + std::to_string(budget.count());
}

}  // namespace farside::bench
