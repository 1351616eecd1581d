// timestamp.h — the clock that timestamps come from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "farside/base/mix.h"
#include "farside/fabric/fabric.h"
#include "farside/kv/types.h"

#include "kv/protocol/wall_time.h"

namespace farside::kv {

struct TimestampHash {
  std::size_t operator()(const Timestamp& timestamp) const {
    return mix(timestamp.time + timestamp.session * kMixStep);
  }
};

/// The latest that a timestamp may be, far from where a clock that has seen it would begin again.
inline constexpr std::uint64_t kLatestTime = (std::uint64_t{1} << 63U) - 1;

/// A hybrid logical clock: follows this process's clock, but is never behind what it has given or seen.
class HybridClock {
 public:
  HybridClock(const Fabric& fabric, std::uint64_t session, const WallTime& wall)
      : fabric_(fabric), session_(session), wall_(wall) {}

  [[nodiscard]] std::uint64_t wall_ns() const { return wall_.now_ns(fabric_); }
  [[nodiscard]] Timestamp next() {
    last_ = std::max(last_ + 1, wall_ns());
    return {last_, session_};
  }
  /// One that may not be is not followed: it was READ from another process's memory.
  void observe(const Timestamp& seen) {
    if (seen.time <= kLatestTime) last_ = std::max(last_, seen.time);
  }

 private:
  const Fabric& fabric_;
  std::uint64_t session_;
  WallTime wall_;
  std::uint64_t last_ = 0;
};

}  // namespace farside::kv
