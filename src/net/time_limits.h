// time_limits.h — the time limits of sockets and handshakes, and the order among them.
//
// Polling intervals that no other limit depends on stand where they are used; so in each module's table.
#pragma once

#include <chrono>

namespace farside::net::time_limits {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// At least, for one of several attempts that share a deadline: a process that is there answers within it.
inline constexpr milliseconds kLeastShare{200};
/// Between two connects to an address of another host where nothing listens yet.
inline constexpr milliseconds kBetweenConnects{100};
/// Between two attempts to be heard by a listener that closes connections because there are too many: at first, and at
/// most.
inline constexpr milliseconds kFirstPauseInCrowd{50};
inline constexpr milliseconds kMaxPauseInCrowd{1000};
/// A listener for which no descriptor is left rests for so long at first, and at most; its loop serves the others.
inline constexpr milliseconds kFirstRest{20};
inline constexpr milliseconds kMaxRest{1000};

/// A TCP connection over which nothing came for kKeepAliveIdle is probed each kKeepAliveInterval. It counts as broken
/// when kKeepAliveProbes in a row have no answer.
inline constexpr seconds kKeepAliveIdle{2};
inline constexpr seconds kKeepAliveInterval{1};
inline constexpr int kKeepAliveProbes = 3;
/// From the death of a host until its connections count as broken.
inline constexpr seconds kBrokenLink = kKeepAliveIdle + kKeepAliveProbes * kKeepAliveInterval;

static_assert(kFirstPauseInCrowd < kLeastShare, "the least share is enough to come back once when it is crowded");
static_assert(kBetweenConnects < kLeastShare,
              "the least share is enough to connect to a process that begins to listen");
static_assert(kFirstRest < kFirstPauseInCrowd,
              "a listener that lacked a descriptor for a moment is back when a client that it could not accept is");
static_assert(kFirstRest <= kMaxRest);
static_assert(kFirstPauseInCrowd <= kMaxPauseInCrowd);

}  // namespace farside::net::time_limits
