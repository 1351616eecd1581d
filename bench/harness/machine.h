// machine.h — where and when something was measured.
#pragma once

#include <cstdint>
#include <string>

namespace farside::bench {

struct Machine {
  std::string cpu;  ///< the model's name
  unsigned cores;
  std::uint64_t memory_bytes;
  std::string kernel;  ///< its release
};

[[nodiscard]] Machine this_machine();

/// Now, as "2025-01-31T12:00:00Z".
[[nodiscard]] std::string utc_date();

[[nodiscard]] std::string farside_version();

}  // namespace farside::bench
