// memory.h — how much memory may be taken on this machine.
#pragma once

#include <cstdint>

namespace farside {

/// Returns the memory that can be taken without swapping: MemAvailable, or what the control group of this process
/// leaves when that is less. Throws Error when the system does not say.
[[nodiscard]] std::uint64_t available_memory_bytes();

}  // namespace farside
