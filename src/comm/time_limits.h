// time_limits.h — the time limits of work in the background, messages and groups, and the order among them.
#pragma once

#include "farside/fabric/time.h"

namespace farside::comm::time_limits {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// For progress of work in the background. What is large is done in pieces, and the time of each counts from the end of
/// the one before: so work that goes on is not ended, whatever its size.
inline constexpr Duration kBackground = seconds(60);
/// For work in the background that uses a group which ends.
inline constexpr Duration kGroupEnd = minutes(2);

/// For one transfer of a broadcast or a message: a rank that does not answer must not keep the others waiting.
inline constexpr Duration kStep = seconds(1);
/// For one member's answer, before the next one is asked.
inline constexpr Duration kAsk = seconds(1);
/// For what a member has written to ranks outside its group, before it arrives: these must not keep the group waiting
/// ...
inline constexpr Duration kOutside = seconds(1);
/// ... and where they did, they have less time ...
inline constexpr Duration kSlowOutside = milliseconds(50);
/// ... for so long.
inline constexpr Duration kOutsideStaysSlow = seconds(10);
/// For a member's operation on its own memory, whose effect must not stay unknown.
inline constexpr Duration kOnOwnMemory = seconds(10);

/// The service thread looks so often whether there is something to do, also if nothing wakes it ...
inline constexpr Duration kNap = seconds(1);
/// ... and is woken by a signal, which takes so long at most.
inline constexpr Duration kRing = seconds(1);
/// How often a member that waits for its group looks whether it could not come itself.
inline constexpr Duration kAbsenceLook = milliseconds(100);

static_assert(kBackground < kGroupEnd, "work in the background ends by itself before its group is given up");
static_assert(kStep < kBackground && kNap + kStep < kBackground,
              "one silent rank does not end the background work of the others");
static_assert(kRing <= kNap, "a signal that does not arrive is not awaited for longer than it spares");
static_assert(kAbsenceLook < kAsk);
static_assert(kSlowOutside < kOutside && kOutside < kOutsideStaysSlow,
              "an unresponsive rank outside a group that meets often costs it kOutside once");

}  // namespace farside::comm::time_limits
