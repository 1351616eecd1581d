// time_limits.h — the time limits of a team, its coordinator and its launcher, and the order among them. liveness.h has
// those of heartbeats, which all members must agree on.
#pragma once

#include "farside/fabric/time.h"

#include "authority/record_store.h"
#include "net/time_limits.h"
#include "team/liveness.h"

namespace farside::team::time_limits {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A member's.

/// For all members to come, and for each exchange and barrier by which a team or a region is set up.
inline constexpr seconds kSetup{30};
/// For the coordinator's answer, after the deadline of an exchange: it says which ranks the exchange lacked.
inline constexpr seconds kAnswerGrace{2};
/// For taking the access of a dead member away, before the next attempt. The service thread waits, and sends no beats.
inline constexpr seconds kRevoke{1};
/// For a member that has come back, with exponential backoff from kFirstPause. Then it stays lost to this one.
inline constexpr seconds kReturn{30};
/// For an attempt to keep its seat, when it has lost the coordinator, and between two of them: at first, and at most.
inline constexpr seconds kKeepSeat{2};
inline constexpr milliseconds kFirstPauseToKeep{100};
inline constexpr milliseconds kMaxPauseToKeep{1000};
/// For a coordinator that the authority names, before it is asked again whether that is still the one.
inline constexpr seconds kFindAgain{10};
/// Between two attempts to watch another process of this host, or to take a member that came back: at first, and for
/// the former at most.
inline constexpr milliseconds kFirstPause{1000};
inline constexpr milliseconds kMaxPause{60'000};

// The coordinator's.

/// For a process to prove that it knows the secret. It is refused then.
inline constexpr seconds kHandshake{10};
/// For the last words of members that have ended, at the team's end; and between two looks.
inline constexpr seconds kLastWords{1};
inline constexpr milliseconds kLook{20};
/// Between the looks of a process that leaves, and so perhaps has to coordinate for a moment; and for all of them.
inline constexpr milliseconds kBetweenLastLooks{100};
inline constexpr seconds kLastLooks{2};
/// For the authority's first answer.
inline constexpr seconds kFirstAnswer{5};

// A process that copies the coordinator's log.

/// For the coordinator's next frame: it sends a beat as often as to a member.
inline constexpr seconds kCopy{20};

// The launcher's.

/// For ranks that were told to end. They are killed then.
inline constexpr seconds kEnd{2};
/// Between a rank's failure and its next start: at first, and at most.
inline constexpr milliseconds kFirstRestartPause{100};
inline constexpr milliseconds kMaxRestartPause{10'000};
/// A rank that lived for so long has no failures in a row behind it.
inline constexpr milliseconds kGoodLife{20'000};

static_assert(kRevoke < kMinSilence, "a member that waits for the fabric is not evicted for it");
static_assert(2 * kBeatInterval < kAnswerGrace, "the coordinator, which looks once in a beat, reports first");
static_assert(kHandshake < kSetup, "a process that was refused for its slowness may come again");
static_assert(authority::RecordStore::kAnswer + kKeepSeat + kMaxPauseToKeep < kBeatsToFindCoordinator * kBeatInterval,
              "a coordinator that was started again waits until each member has asked for its seat");
static_assert(longest_silence(silent_beats(kMaxSilence) + kBeatsToFindCoordinator) < kSetup &&
                  longest_silence(silent_beats(kMaxSilence)) < kReturn,
              "a member that died is evicted before those that wait for it or its seat give up");
static_assert(kGoodLife < kSetup,
              "a rank that could not join, as the others are out of reach, is started again and again");
static_assert(kFirstRestartPause <= kMaxRestartPause && kFirstPause <= kMaxPause && kFirstPause < kReturn);

}  // namespace farside::team::time_limits
