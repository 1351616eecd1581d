// expiries.h — which buckets of an index may have keys that have expired: for each bucket the earliest moment at which
// a committed version expires of the keys whose search begins there. These words lie side by side in the server's own
// memory: a walk over them costs little, however many keys never expire.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace farside::kv {

class Expiries {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  explicit Expiries(std::uint64_t buckets) : earliest_ns_(buckets, kNever) {}

  [[nodiscard]] std::uint64_t bytes() const { return earliest_ns_.size() * sizeof earliest_ns_[0]; }

  /// One of the bucket's keys has a version that expires then.
  void note(std::uint64_t bucket, std::uint64_t expires_ns) {
    earliest_ns_[bucket] = std::min(earliest_ns_[bucket], expires_ns);
  }
  /// No key of the bucket expires before.
  void set(std::uint64_t bucket, std::uint64_t expires_ns) { earliest_ns_[bucket] = expires_ns; }

  /// A part of the walk.
  struct Walk {
    std::uint64_t passed;              ///< buckets, the one that is due included
    std::optional<std::uint64_t> due;  ///< the bucket that ended it
  };
  /// Walks on, over at most `buckets`, to the first that has a moment at or before `now_ns`.
  [[nodiscard]] Walk next_due(std::uint64_t buckets, std::uint64_t now_ns) {
    for (std::uint64_t passed = 1; passed <= buckets; ++passed) {
      const std::uint64_t bucket = next_;
      next_ = next_ + 1 == earliest_ns_.size() ? 0 : next_ + 1;
      if (earliest_ns_[bucket] <= now_ns) return {passed, bucket};
    }
    return {buckets, std::nullopt};
  }

 private:
  std::vector<std::uint64_t> earliest_ns_;
  std::uint64_t next_ = 0;
};

}  // namespace farside::kv
