// work.h — what a contender does, and how it is asked for it.
//
// A contender is a job of several ranks. Rank 0 reads questions, "<operation> <amount> <budget in ms>", and answers
// each with the Timing of a round. What an amount is depends on the operation: bytes, or threads. Operations are made
// by rank 0 alone, while the others sleep, or by all together: then rank 0 tells the others how many rounds there will
// be, and times its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/harness/timing.h"

namespace farside::bench {

/// What rank 0 tells the others to take part in.
struct Command {
  std::uint64_t operation;  ///< its place in the list, which is the same at all ranks
  std::uint64_t amount;
  std::uint64_t rounds;
};

class Work {
 public:
  using Make = std::function<void(std::uint64_t amount, std::uint64_t rounds)>;
  /// The same, and how long what counts of it took.
  using Measure = std::function<Nanoseconds(std::uint64_t amount, std::uint64_t rounds)>;
  using Tell = std::function<void(const Command&)>;

  void alone(std::string name, Make make);
  void together(std::string name, Make make);
  /// Where ranks do what does not count between what does. Who is not rank 0 does all rounds at one call.
  void together_in_part(std::string name, Measure measure) {
    operations_.push_back({std::move(name), true, std::move(measure)});
  }

  /// Rank 0's main loop, until its input ends. `tell` tells the others.
  void answer_questions(const Tell& tell) const;
  /// The others take part. False when there is nothing more to do.
  [[nodiscard]] bool obey(const Command& command) const;

 private:
  struct Operation {
    std::string name;
    bool together;
    Measure measure;
  };

  [[nodiscard]] std::size_t place_of(const std::string& name) const;
  [[nodiscard]] Timing time_together(Command command, Nanoseconds budget, const Tell& tell) const;

  std::vector<Operation> operations_;
};

/// As a contender is asked.
[[nodiscard]] std::string question(const std::string& operation, std::uint64_t amount,
                                   std::chrono::milliseconds budget);

}  // namespace farside::bench
