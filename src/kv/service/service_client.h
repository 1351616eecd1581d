// service_client.h — a process's connections to all servers, and the sessions that it has over them.
//
// Thread safety: ServiceClient, every call from any thread. A session belongs to one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "farside/fabric/fabric.h"
#include "farside/kv/client.h"

#include "base/mutex.h"
#include "kv/client/session_stack.h"
#include "kv/mailbox/mailbox.h"
#include "kv/service/server_link.h"
#include "kv/timed_session.h"
#include "net/event_loop.h"
#include "service/addresses.h"

namespace farside::kv {

/// How one partition is reached. Of the two servers of one that has a standby either may be null, when the other
/// serves. Both are null when the partition was not reached: calls that need it end with peer_lost.
struct PartitionLinks {
  std::shared_ptr<ServerLink> primary;
  std::shared_ptr<ServerLink> standby{};  ///< null, too, when there are none
};

/// The links of all partitions, by number.
struct PoolLinks {
  std::vector<PartitionLinks> partitions;
  std::vector<bool> needed;  ///< by partition: without these there is no session
  bool are_all_needed = false;
  const Region* epochs;  ///< of this process, a word for each partition; null: there are no standbys
  MailboxShape shape;
  /// A link to the partition's standby that is not lost, and another one than `former`; null: none can be had at the
  /// moment.
  std::function<std::shared_ptr<ServerLink>(ServerNumber, const std::shared_ptr<ServerLink>& former)> renew_standby{};
};

/// The links of a session. Its mailboxes are closed when this is destroyed.
class SessionLinks {
 public:
  /// Throws Error when a server that is needed does not answer. Without the others it does.
  SessionLinks(Fabric& fabric, PoolLinks links, Waking waking, net::SetupClock::time_point deadline);
  ~SessionLinks();
  SessionLinks(const SessionLinks&) = delete;
  SessionLinks& operator=(const SessionLinks&) = delete;

  /// The ends of the servers' mailboxes, then of the standbys'.
  [[nodiscard]] std::vector<MailboxEnd> ends() const;
  [[nodiscard]] const MailboxShape& shape() const noexcept { return links_.shape; }
  [[nodiscard]] bool have_standbys() const noexcept { return links_.epochs != nullptr; }
  /// Requires: there are standbys. Which server has each partition. `seats`, which go to `ends`, outlive it.
  [[nodiscard]] std::unique_ptr<Homes> homes(Fabric& fabric, Channel& channel, MailboxRequests& seats);
  [[nodiscard]] const std::vector<ServerMemory>& memories() const noexcept { return memories_; }
  [[nodiscard]] ServerNumber partitions() const { return static_cast<ServerNumber>(links_.partitions.size()); }
  /// Neither the primary nor the standby is connected to any more.
  [[nodiscard]] bool is_lost(ServerNumber partition) const;
  /// True if a connection of any partition broke, or there is none.
  [[nodiscard]] bool has_lost_any() const;

 private:
  void open_mailboxes(net::SetupClock::time_point deadline);
  [[nodiscard]] Homes::StandbyIs how_is_standby(ServerNumber partition, Channel& channel, MailboxRequests& seats);
  /// Another standby than before; false: it cannot be used.
  [[nodiscard]] bool take_standby(ServerNumber partition, const std::shared_ptr<ServerLink>& link,
                                  MailboxRequests& seats);
  /// `link`'s; a region that fails every operation, where there is none.
  [[nodiscard]] ServerMemory memory_of(const std::shared_ptr<ServerLink>& link) const;

  /// A mailbox, or nothing in its place: nothing is posted there.
  struct Seat {
    std::shared_ptr<ServerLink> link;
    ServerLink::Mailbox mailbox;
    std::unique_ptr<Region> ring{};  ///< for its replies, where it took the place of another
  };

  Fabric& fabric_;
  PoolLinks links_;
  const Waking waking_;
  Homes* homes_ = nullptr;
  std::unique_ptr<Region> rings_;
  std::unique_ptr<RemoteRegion> nowhere_;
  std::vector<Seat> seats_;
  std::vector<ServerMemory> memories_;  ///< of the primaries
};

/// Base of ServiceSession: made before its other base, TimedSession, which needs the session.
struct LinkedSession {
  LinkedSession(Fabric& fabric, PoolLinks to, const SessionSettings& settings, Waking waking,
                net::SetupClock::time_point deadline);

  SessionLinks links;
  SessionStack stack;
};

class ServiceSession final : private LinkedSession, public TimedSession {
 public:
  ServiceSession(Fabric& fabric, PoolLinks to, const SessionSettings& settings, Waking waking,
                 std::chrono::milliseconds time_out, net::SetupClock::time_point deadline)
      : LinkedSession(fabric, std::move(to), settings, waking, deadline),
        TimedSession(fabric, stack.session(), time_out) {}

  [[nodiscard]] std::optional<std::uint32_t> lost_server_of(std::string_view key) const override;
  [[nodiscard]] bool has_lost_server() const override { return links.has_lost_any() || stack.is_torn(); }
  [[nodiscard]] std::uint32_t servers() const override { return links.partitions(); }
  [[nodiscard]] std::uint32_t server_of(std::string_view key) const override {
    return kv::server_of(key_id(key), links.partitions());
  }
};

class ServiceClient {
 public:
  /// `entries`: where servers may be reached; the first that answers names the others. Throws Error when none does
  /// within `limit`.
  ServiceClient(std::span<const std::string> entries, const net::Secret& pool, std::chrono::milliseconds limit);
  ~ServiceClient();
  ServiceClient(const ServiceClient&) = delete;
  ServiceClient& operator=(const ServiceClient&) = delete;

  [[nodiscard]] std::chrono::milliseconds longest_silence() const noexcept { return welcome_.longest_silence; }
  [[nodiscard]] ServerNumber servers() const noexcept { return static_cast<ServerNumber>(welcome_.servers.size()); }

  /// As Client::open_session; may wait for `limit`.
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options, std::chrono::milliseconds limit);
  /// As Client::copies; may wait for `limit`.
  [[nodiscard]] std::vector<std::uint32_t> copies(std::chrono::milliseconds limit);

 private:
  /// For a session, as PoolLinks::renew_standby: tries once a second.
  [[nodiscard]] std::shared_ptr<ServerLink> renew_standby(ServerNumber partition,
                                                          const std::shared_ptr<ServerLink>& former);
  /// By partition, those of these keys; none is needed where there are no keys.
  [[nodiscard]] std::vector<bool> needed_by(const std::vector<std::string>& keys) const;
  /// Those that are needed; where none is, all that answer by `until`. Throws Error when one that is needed does not,
  /// or none at all. While a standby takes over it is waited for until `deadline`.
  [[nodiscard]] PoolLinks reach_all(std::vector<bool> needed, net::SetupClock::time_point until,
                                    net::SetupClock::time_point deadline);
  /// A partition's servers, as this process is linked to them.
  struct Linked {
    PartitionLinks links;
    std::unique_ptr<Channel> channel;        ///< for what is READ of them between sessions; made when it is needed
    net::SetupClock::time_point next_try{};  ///< of a session, to renew the standby
  };
  /// `linked` is the partition's; no other thread uses it meanwhile.
  [[nodiscard]] PartitionLinks reach(Linked& linked, ServerNumber partition, net::SetupClock::time_point until,
                                     net::SetupClock::time_point deadline);
  [[nodiscard]] bool serves(const ServerLink& standby, Channel& channel) const;
  [[nodiscard]] bool is_between_hosts() const { return welcome_.greeting.remote_peers; }
  [[nodiscard]] net::SetupClock::time_point end_of_try(net::SetupClock::time_point deadline) const;
  /// Connects again when it was lost.
  void renew(std::shared_ptr<ServerLink>& link, Channel& channel, const service::KnownAddresses& addresses,
             ServerNumber server, net::SetupClock::time_point answer_by, net::SetupClock::time_point deadline);
  [[nodiscard]] std::shared_ptr<ServerLink> connect(const std::string& address, ServerNumber server,
                                                    net::SetupClock::time_point deadline);

  const net::Secret secret_;
  std::unique_ptr<Fabric> fabric_;
  Welcome welcome_;  ///< of whichever answered first
  // Since then.
  std::optional<service::KnownAddresses> servers_;
  std::optional<service::KnownAddresses> standbys_;
  std::unique_ptr<Region> epochs_;  ///< null: there are no standbys
  net::EventLoop loop_;
  Mutex mutex_;
  std::vector<Linked> linked_ GUARDED_BY(mutex_);  ///< by partition
};

}  // namespace farside::kv
