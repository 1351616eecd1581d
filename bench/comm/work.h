// work.h — what the contenders of `bench comm` do, and how they are asked for it.
//
// A contender is a job of several ranks. Rank 0 reads questions, "<operation> <amount> <budget in ms>", and answers
// each with the Timing of a round. What an amount is depends on the operation: bytes, or threads. Operations are made
// by rank 0 alone, while the others sleep, or by all together: then rank 0 tells the others how many rounds there will
// be, and times its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/harness/timing.h"

namespace farside::bench {

inline constexpr std::uint64_t kLargestBytes = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kStreamBytes = 8;  ///< of what is sent one after the other
inline constexpr std::uint64_t kStreamedBytes =
    std::uint64_t{64} << 20;  ///< that each thread reads, writes or copies: more than caches hold

/// What rank 0 tells the others to take part in.
struct Command {
  std::uint64_t operation;  ///< its place in the list, which is the same at all ranks
  std::uint64_t amount;
  std::uint64_t rounds;
};

class Work {
 public:
  using Make = std::function<void(std::uint64_t amount, std::uint64_t rounds)>;
  using Tell = std::function<void(const Command&)>;

  void alone(std::string name, Make make) { operations_.push_back({std::move(name), false, std::move(make)}); }
  void together(std::string name, Make make) { operations_.push_back({std::move(name), true, std::move(make)}); }

  /// Rank 0's main loop, until its input ends. `tell` tells the others.
  void answer_questions(const Tell& tell) const;
  /// The others take part. False when there is nothing more to do.
  [[nodiscard]] bool obey(const Command& command) const;

 private:
  struct Operation {
    std::string name;
    bool together;
    Make make;
  };

  [[nodiscard]] std::size_t place_of(const std::string& name) const;
  [[nodiscard]] Timing time_together(Command command, Nanoseconds budget, const Tell& tell) const;

  std::vector<Operation> operations_;
};

/// About half a millisecond of arithmetic.
void compute();

}  // namespace farside::bench
