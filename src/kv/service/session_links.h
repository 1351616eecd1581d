// session_links.h — a session with a pool's servers: its links to them, its mailboxes there, and which of a partition's
// two servers is its primary, while servers die and others take their places (docs/protocols/kv_replication.md).
//
// Thread safety: one thread at a time, that of the session.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/client/session_stack.h"
#include "kv/mailbox/mailbox.h"
#include "kv/service/server_link.h"
#include "kv/timed_session.h"

namespace farside::kv {

/// How one partition is reached.
struct PartitionLinks {
  std::shared_ptr<ServerLink> primary;    ///< null: it was not reached; calls that need it end with peer_lost
  std::shared_ptr<ServerLink> standby{};  ///< null: the primary is alone
  unsigned seat = 0;                      ///< the primary's
};

/// The result of an attempt to link to a process again.
struct RenewedLink {
  std::shared_ptr<ServerLink> link{};  ///< not lost; null: none
  bool was_tried = true;               ///< false: another thread is trying for others
};

/// The links of all partitions, by number.
struct PoolLinks {
  std::vector<PartitionLinks> partitions;
  std::vector<bool> needed;  ///< by partition: without these there is no session
  bool are_all_needed = false;
  bool have_standbys = false;
  MailboxShape shape;
  /// A link to the process in that seat of a partition which has that identity, or, if it is 0, to whichever is there.
  std::function<RenewedLink(ServerNumber, unsigned seat, std::uint64_t identity)> renew{};
};

/// The links of a session. Its mailboxes are closed when this is destroyed.
class SessionLinks {
 public:
  /// Throws Error when a server that is needed does not answer. Without the others it does.
  SessionLinks(Fabric& fabric, PoolLinks links, Waking waking, net::SetupClock::time_point deadline);
  ~SessionLinks();
  SessionLinks(const SessionLinks&) = delete;
  SessionLinks& operator=(const SessionLinks&) = delete;

  /// Those of first seats, by partition, then of second ones.
  [[nodiscard]] std::vector<MailboxEnd> ends() const;
  [[nodiscard]] const MailboxShape& shape() const noexcept { return links_.shape; }
  [[nodiscard]] bool have_standbys() const noexcept { return links_.have_standbys; }
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
  void follow_moves(ServerNumber partition);
  /// Another standby than before; false: it cannot be used.
  [[nodiscard]] bool take_standby(ServerNumber partition, const std::shared_ptr<ServerLink>& link, Channel& channel,
                                  MailboxRequests& seats);
  /// `link`'s; a region that fails every operation, where there is none.
  [[nodiscard]] ServerMemory memory_of(const std::shared_ptr<ServerLink>& link) const;
  [[nodiscard]] Homes::Primary server_of(const std::shared_ptr<ServerLink>& link, ServerNumber partition,
                                         unsigned seat) const;
  [[nodiscard]] Homes::Standby standby_of(const std::shared_ptr<ServerLink>& link, ServerNumber partition,
                                          unsigned seat) const;
  [[nodiscard]] ServerNumber number_of(ServerNumber partition, unsigned seat) const {
    return seat * partitions() + partition;
  }

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

}  // namespace farside::kv
