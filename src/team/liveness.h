// liveness.h — heartbeats: when a member on another host counts as dead, and when a member gives up the coordinator.
//
// Stands alone: coordinator and members must agree on it. When kBeatInterval, kMinSilence or kMaxSilence changes,
// kTeamProtocol does (net/handshake.h).
#pragma once

#include <chrono>
#include <cstdint>

namespace farside::team {

/// Members and the coordinator tell each other this often that they are there, between hosts only.
inline constexpr std::chrono::milliseconds kBeatInterval{500};

/// The silence time: how long an unresponsive member of another host is waited for. The coordinator chooses it, and
/// each member learns it with its seat.
inline constexpr std::chrono::milliseconds kDefaultSilence{5'000};
inline constexpr std::chrono::milliseconds kMinSilence{2'000};
inline constexpr std::chrono::milliseconds kMaxSilence{20'000};

/// The silence time in beats, rounded up. A member that was not heard for more than so many of one's own beats is
/// evicted. Own beats are counted, not time taken: a process that was held up itself, or with its whole machine, must
/// not blame the others for that.
[[nodiscard]] constexpr std::uint32_t silent_beats(std::chrono::milliseconds silence) {
  return static_cast<std::uint32_t>((silence + kBeatInterval - std::chrono::milliseconds(1)) / kBeatInterval);
}
/// The longest until a member that fell silent is evicted.
[[nodiscard]] constexpr std::chrono::milliseconds longest_silence(std::uint32_t beats) {
  return (beats + 1) * kBeatInterval;
}

/// For members to find a coordinator that was started again, once they have missed the former one: they try at least
/// once a second (time_limits.h).
inline constexpr std::uint32_t kBeatsToFindCoordinator = 10;
/// Until then such a coordinator counts only from when it has heard of any process: its host's network may begin later.
inline constexpr std::uint32_t kBeatsUntilReached = 60;

}  // namespace farside::team
