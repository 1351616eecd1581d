// failures.h — which of the operations that were issued have failed, and how.
//
// An operation that threw has failed, too: a caller that asks how it ended is thrown the same exception.
//
// Guarantee: an operation that failed never reads as done, however many have failed. Memory is bounded: failures that
// follow each other and are alike are one run; of more than kMaxRuns, the two oldest become one, with what succeeded
// between them. That then reads as failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>

#include "farside/comm/comm.h"

namespace farside::comm {

class Failures {
 public:
  static constexpr std::size_t kMaxRuns = 1024;

  /// Numbers ascend from call to call; where they do not, what lies between reads as failed, too.
  void add(std::uint64_t number, const Status& status) { add({number, number, status, nullptr}); }
  void add_thrown(std::uint64_t number, std::exception_ptr error) { add({number, number, {}, std::move(error)}); }
  /// How the first one of `request` ended that is known to have failed; done if none is. Throws what that one threw.
  [[nodiscard]] Status first_of(const Request& request) const;

 private:
  struct Run {
    std::uint64_t first;
    std::uint64_t last;
    Status status;             ///< of the first
    std::exception_ptr error;  ///< the same; null when it did not throw
  };

  void add(Run added);
  /// The first run with a number of `request`; null if none has.
  [[nodiscard]] const Run* find(const Request& request) const;

  std::deque<Run> runs_;  ///< ascending, and apart from each other
};

}  // namespace farside::comm
