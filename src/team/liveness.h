// liveness.h — heartbeats: when a member on another host counts as dead, and when a member gives up the coordinator.
//
// Stands alone: coordinator and members must agree on it. When it changes, kTeamProtocol does (net/handshake.h).
#pragma once

#include <chrono>

namespace farside::team {

/// Members and the coordinator tell each other this often that they are there, between hosts only.
inline constexpr std::chrono::milliseconds kBeatInterval{500};
/// A member that was not heard for more than so many of one's own beats is evicted: after 2 to 2.5 s. Own beats are
/// counted, not time taken: a process that was held up itself, or with its whole machine, must not blame the others for
/// that.
inline constexpr unsigned kSilentBeats = 4;
/// For members to find a coordinator that was started again: they try at least once a second (time_limits.h).
inline constexpr unsigned kBeatsAfterRestart = 10;
/// Until then such a coordinator counts only from when it has heard of any process: its host's network may begin later.
inline constexpr unsigned kBeatsUntilReached = 60;
/// The longest until a member that fell silent is evicted.
inline constexpr std::chrono::milliseconds kMaxSilence = (kSilentBeats + 1) * kBeatInterval;

}  // namespace farside::team
