// time_limits.h — the time limits between a service of the pool and its clients, and the order among them.
#pragma once

#include <chrono>

#include "farside/fabric/time.h"

#include "net/time_limits.h"

namespace farside::service::time_limits {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// In a service.

/// For a client to prove that it knows the secret. It is refused then.
inline constexpr seconds kHandshake{10};
/// How often the service looks for such clients.
inline constexpr milliseconds kLook{500};
/// For a signal to the service's own thread, which looks by itself if it does not come.
inline constexpr Duration kRing = seconds(1);

// In a client.

/// For the first attempt to be welcomed by each process that may provide the service. Each further round gives them
/// twice as much, and at most kMaxTry. A process that hangs accepts connections and does not answer. Where nothing
/// listens the attempt ends at once, also between hosts (connect_to).
inline constexpr milliseconds kFirstTry{100};
inline constexpr minutes kMaxTry{1};
/// For a node that is asked where another one is reached, which does not answer where it was.
inline constexpr milliseconds kAskAddresses{500};
/// For a message that the other side can do without: the end of the link says the same.
inline constexpr seconds kFarewell{1};

static_assert(net::time_limits::kFirstPauseInCrowd < kFirstTry, "the first attempt comes back once when it is crowded");
static_assert(kFirstTry <= net::time_limits::kBetweenConnects,
              "where nothing listens the first attempt, which is then the last, ends at once");
static_assert(kFirstTry < kHandshake && kHandshake < kMaxTry,
              "some attempt of a client that is slow, or far away, lasts as long as the service waits for it");
static_assert(kLook < kHandshake);
static_assert(kFarewell < net::time_limits::kBrokenLink, "a client does not wait to say what a dead link says sooner");

}  // namespace farside::service::time_limits
