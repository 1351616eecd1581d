// backoff.h — exponential backoff: how long to wait before each next attempt, or for it.
//
// Stands alone: all modules wait by it.
#pragma once

#include <algorithm>
#include <utility>

namespace farside {

/// `Length` is a duration. The first wait is `first`, each next one is twice as long, and none is longer than
/// `longest`.
template <class Length>
class Backoff {
 public:
  constexpr Backoff(Length first, Length longest) : first_(first), longest_(longest), next_(first) {}

  [[nodiscard]] Length next() { return std::exchange(next_, std::min<Length>(2 * next_, longest_)); }
  /// The length that next() will return.
  [[nodiscard]] Length current() const { return next_; }
  /// An attempt succeeded.
  void reset() { next_ = first_; }

 private:
  Length first_;
  Length longest_;
  Length next_;
};

}  // namespace farside
