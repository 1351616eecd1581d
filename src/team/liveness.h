// liveness.h — when a member on another host counts as dead.
#pragma once

#include <chrono>

namespace farside {

/// Members and the coordinator tell each other this often that they are there, between hosts only.
inline constexpr std::chrono::milliseconds kBeatInterval{500};
/// Who was not heard for more of one's own beats is evicted: after 2 to 2.5 s. Own beats are counted, not time taken:
/// whoever was held up itself, or with its whole machine, must not blame the others for that.
inline constexpr unsigned kSilentBeats = 4;

}  // namespace farside
