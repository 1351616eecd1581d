// liveness.h — when a member on another host counts as dead.
#pragma once

#include <chrono>

namespace farside {

/// Members and the coordinator tell each other this often that they are there, between hosts only.
inline constexpr std::chrono::milliseconds kBeatInterval{500};
/// Who was silent for longer is evicted.
inline constexpr std::chrono::milliseconds kSilenceLimit{2000};

}  // namespace farside
