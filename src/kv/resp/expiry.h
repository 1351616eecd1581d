// expiry.h — when a key expires: commands say it in seconds or milliseconds, from now or since 1970.
//
// Stands alone: two groups of commands share it.
#pragma once

#include <cstdint>
#include <optional>

namespace farside::kv {

inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::int64_t kMsPerSecond = 1000;

struct TimeUnit {
  std::int64_t ms;
  bool from_now;

  bool operator==(const TimeUnit&) const = default;
};
inline constexpr TimeUnit kSecondsFromNow{kMsPerSecond, true};
inline constexpr TimeUnit kMsFromNow{1, true};
inline constexpr TimeUnit kUnixSeconds{kMsPerSecond, false};
inline constexpr TimeUnit kUnixMs{1, false};

/// As wall time; the least there is when it lies before 1970. None: beyond what 64 bits of nanoseconds can say, which
/// is in 2554.
[[nodiscard]] std::optional<std::uint64_t> expires_ns(std::int64_t time, TimeUnit unit, std::uint64_t now_ns);

/// The time left until then, or since 1970.
[[nodiscard]] std::int64_t in_unit(std::uint64_t expires_ns, TimeUnit unit, std::uint64_t now_ns);

}  // namespace farside::kv
