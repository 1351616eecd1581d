// time_limits.h — the time limits of the key-value store, and the order among them. lease.h has the lease, which
// clients and standbys must agree on.
#pragma once

#include <algorithm>

#include "farside/fabric/time.h"
#include "farside/kv/types.h"

#include "kv/protocol/lease.h"

namespace farside::kv::time_limits {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// In a client.

/// For one server that is not yet known to be gone, where its standby may serve instead.
inline constexpr seconds kTry{1};
/// For servers that a session can do without: a part of the time that it has to open.
inline constexpr int kPartForOthers = 4;
/// Between two rounds of attempts to open a session.
inline constexpr milliseconds kBetweenTries{10};
/// For a standby's word whether it serves, and for a primary's whether it is alone.
inline constexpr Duration kAskStanding = seconds(1);
/// For a server's description of its memory.
inline constexpr Duration kReadHead = seconds(10);
/// For a primary, before the session looks whether it has been replaced; then twice as long, and so on.
inline constexpr Duration kFirstSlice = milliseconds(150);
/// The same while it waits for a reply, which the standby may give as well.
inline constexpr Duration kReplySlice = milliseconds(20);
/// Between two READs of what came without a lease.
inline constexpr Duration kReadAgain = milliseconds(20);
/// Between two looks whether a standby that takes over serves yet.
inline constexpr Duration kLookForStandby = microseconds(500);

// In a server.

/// For posting a question to another server over a link that is up; the answer is not waited for.
inline constexpr Duration kPost = milliseconds(10);
/// Superseded versions can be asked for as long.
inline constexpr Duration kGrace = seconds(2);
/// For a client between prepare and commit. Then the other servers are asked how the transaction ended.
inline constexpr Duration kUndecided = seconds(1);
/// For connecting to another server.
inline constexpr seconds kConnect{2};
/// For taking the access of a client that went away. The thread that accepts clients waits.
inline constexpr Duration kRevoke = seconds(1);
/// For a client to take a reply: of one attempt, which keeps other clients waiting; ...
inline constexpr Duration kReply = milliseconds(100);
/// ... between two attempts, as long as the client has taken nothing, at least and at most; ...
inline constexpr Duration kMinBetweenReplies = seconds(1);
inline constexpr Duration kMaxBetweenReplies = seconds(5);
/// ... and of all of them. Then the client's mailbox is closed.
inline constexpr Duration kUnread = seconds(30);

// Between a primary and its standby.

/// For the standby to come, when the primary starts.
inline constexpr milliseconds kStandby{30'000};
/// For a standby that neither takes changes nor is dead: at least, and beyond `longest_silence`, after which a death on
/// another host is known. No client is answered in that time.
inline constexpr Duration kSync = seconds(3);
inline constexpr Duration kSyncBeyondSilence = milliseconds(500);
[[nodiscard]] constexpr Duration sync_timeout(Duration longest_silence) {
  return std::max(kSync, longest_silence + kSyncBeyondSilence);
}
/// Until it is asked whether the standby is dead: for each ShippingSettings::bytes_per_slice, and once more.
inline constexpr Duration kSyncSlice = milliseconds(500);
/// While nothing is shipped: for a look whether the standby follows, from one to the next, and at most where the
/// standby does not answer.
inline constexpr Duration kStandbyLook = milliseconds(50);
inline constexpr Duration kBetweenStandbyLooks = milliseconds(100);
inline constexpr Duration kMaxBetweenStandbyLooks = seconds(32);
/// Between two looks for a process that has nothing and may be made the standby of a server that is alone.
inline constexpr Duration kBetweenSeeks = milliseconds(100);
/// The same for a process that has a copy on its disk alone and looks for the one in the other seat: at most.
inline constexpr Duration kMaxBetweenLooksAtSeat = seconds(1);
/// For a process to come to that seat where the last one is dead.
inline constexpr Duration kOtherSeat = seconds(10);
/// For shipping some of a copy to a standby that has nothing yet.
inline constexpr Duration kLesson = milliseconds(20);
/// For another connection to a standby after the first one broke, ...
inline constexpr milliseconds kReachAgain{200};
/// ... and between two such attempts, at first and at most.
inline constexpr Duration kBetweenConnections = milliseconds(50);
inline constexpr Duration kMaxBetweenConnections = seconds(1);
/// For a process of this host to take the word that the standby serves. Its access is taken away then ...
inline constexpr Duration kTell = seconds(1);
/// ... with such pauses between attempts, ...
inline constexpr Duration kBetweenCutOffs = milliseconds(100);
/// ... each of which takes so long, as does taking the primary's access away.
inline constexpr Duration kTakeAccess = seconds(5);
/// For a primary whose process ends, in good order perhaps: its standby is told to end as well.
inline constexpr Duration kEnding = seconds(1);

// For programs that speak the Redis protocol.

/// For a client to take anything of its replies, and to say the password. It is disconnected then.
inline constexpr milliseconds kClientUnread{60'000};
inline constexpr milliseconds kUnauthenticated{10'000};
/// After a wrong password nothing is taken for so long, and up to kClientLook more.
inline constexpr milliseconds kWrongPassword{1000};
inline constexpr milliseconds kClientLook{1000};
/// For a server of the store that does not answer. Then what needs it is refused at once. At least; where deaths are
/// known after `longest_silence`, as long: a server that died is lost first, which names another remedy. A call of
/// `call_timeout` has ended before more.
inline constexpr milliseconds kUnresponsive{2500};
[[nodiscard]] constexpr milliseconds unresponsive_timeout(milliseconds longest_silence, milliseconds call_timeout) {
  return std::max(kUnresponsive, std::min(longest_silence, call_timeout));
}
/// For a command whose keys others change as well.
inline constexpr seconds kContention{10};
/// A call that keeps other clients of its thread waiting for so long gets a thread of its own.
inline constexpr milliseconds kLongCall{50};
inline constexpr milliseconds kBetweenGlances{20};
/// Between two attempts of a session to reach another server of a partition: at first, and kBetweenOpenings at most.
inline constexpr milliseconds kFirstBetweenRenewals{50};
/// A link that lasted for so long was no failure: the next loss is another one.
inline constexpr milliseconds kLasted{100};
/// Between two attempts to open a session, or to open a lost one anew.
inline constexpr seconds kBetweenOpenings{1};

static_assert(kTry < kDefaultTimeout / kPartForOthers, "a session opens without a server that hangs");
static_assert(kAskStanding <= kTry, "a standby that hangs keeps a session waiting no longer than a server that does");
static_assert(kReplySlice < kFirstSlice && kFirstSlice < kLease, "a lease is renewed while it is valid");
static_assert(kFirstSlice < kUnresponsive && kUnresponsive < kDefaultTimeout,
              "a session looks for a standby before its server counts as unresponsive, and that before its call ends");
static_assert(kPost < kUndecided, "a server that does not take a question does not delay those to others");
static_assert(kReply < kMinBetweenReplies && kMinBetweenReplies <= kMaxBetweenReplies,
              "a client that takes no reply costs the others a small part of the server's time");
static_assert(kDefaultTimeout + kMaxBetweenReplies < kUnread,
              "a client that stands still for one call's time still gets its replies");
static_assert(kSyncSlice + kReachAgain < kSync, "a standby is asked for, and reached anew, before it is given up");
static_assert(kStandbyLook < kBetweenStandbyLooks && kBetweenStandbyLooks <= kMaxBetweenStandbyLooks,
              "a primary spends most of its time on its clients");
static_assert(kBetweenConnections <= kMaxBetweenConnections);
static_assert(kBetweenCutOffs < kTakeAccess);
static_assert(kBetweenGlances < kLongCall, "a long call is seen while it is one");
static_assert(kClientLook <= kWrongPassword && kClientLook < kUnauthenticated && kClientLook < kClientUnread);
static_assert(kContention <= kDefaultTimeout,
              "a command that others hinder takes no longer than one that a server does");

}  // namespace farside::kv::time_limits
