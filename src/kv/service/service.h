// service.h — a key-value server as a process runs it: its store, its fabric, its clients, and what it needs of the
// other servers.
//
// Thread safety: wake from any thread; the rest is for one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "farside/fabric/fabric.h"

#include "base/task_queue.h"
#include "base/throttled_log.h"
#include "kv/journal/durable_copy.h"
#include "kv/mailbox/mailbox_inbox.h"
#include "kv/protocol/time_limits.h"
#include "kv/service/clients.h"
#include "kv/service/other_seat.h"
#include "kv/service/other_servers.h"
#include "kv/service/partition_server.h"
#include "kv/service/standby_seeker.h"
#include "net/event_loop.h"
#include "net/secret.h"
#include "service/addresses.h"
#include "service/service_fabric.h"

namespace farside::kv {

/// A partition's two servers, in two processes, which have the partition's two seats: the one in the first seat begins
/// as the primary, the one in the second as its standby. With a journal both begin with nothing, until it is known
/// which goes on with what its disk has (`Service::succession`). The same at all but for `seat`, `has_nothing`,
/// `goes_on` and `incarnation`.
struct ReplicaOptions {
  service::AddressesNow standbys{};  ///< where each second seat is, by partition; none: there are none
  unsigned seat = 0;                 ///< this one's, where it listens
  bool has_nothing = false;          ///< it begins as a standby, whichever seat it has, and is to be taught
  bool goes_on = false;              ///< it serves from its start on what its disk has
  std::uint16_t incarnation = 0;     ///< of this process (Team::incarnation)
  /// For certain (Standby::IsDead, ShippingJournal::IsDead): the process that had that seat of a partition in that
  /// incarnation.
  std::function<bool(ServerNumber partition, unsigned seat, std::uint16_t incarnation)> is_dead{};
  /// For certain: the last process that had that seat, in whose place none has come. Asked where copies are on disks.
  std::function<bool(ServerNumber partition, unsigned seat)> is_gone{};
  std::uint32_t min_copies = 1;                             ///< ShippingSettings::min_copies
  std::uint64_t copy_bytes_per_second = 0;                  ///< ShippingSettings::bytes_per_second
  std::uint64_t ring_bytes = 8U << 20U;                     ///< of what changes are shipped through
  std::chrono::milliseconds limit = time_limits::kStandby;  ///< for the standby to come, which the primary waits for
};

struct ServiceOptions {
  ServerNumber self = 0;
  service::AddressesNow servers;    ///< where each is reached (socket.h), by number
  std::vector<std::string> listen;  ///< where this one is
  bool remote_peers = false;        ///< some are on other hosts
  StoreSettings store;
  MailboxShape mailbox;
  Duration termination_timeout =
      time_limits::kUndecided;               ///< with a client that was not heard of between prepare and commit
  std::optional<JournalSettings> journal{};  ///< none: nothing outlives the process; with standbys each copy's own
  ReplicaOptions replica{};
  /// Until a server on another host that does not answer is dead; 0 where no process decides that.
  std::chrono::milliseconds longest_silence{};
};

class Service {
 public:
  /// Has what its journal says. Clients may come from now on. Throws Error when it cannot listen, has not the memory,
  /// cannot recover, or its standby, which must be serving by then, does not answer.
  Service(const ServiceOptions& options, const net::Secret& pool);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Serves until `ended`, which is asked now and then, and after a wake.
  void serve_until(const std::function<bool()>& ended);
  void wake() { bell_.ring(); }
  /// For the thread that serves: a standby that can never serve, whose primary may teach another one.
  [[nodiscard]] bool is_of_no_use() const;
  /// For the thread that serves: which of the partition's two seats is to go on with what its disk has, and why. None:
  /// that is not known, or one of them serves, or is taught.
  struct Succession {
    Successor successor;
    CopyClaim other;     ///< that of the other seat
    std::string claims;  ///< both, for messages
  };
  [[nodiscard]] const std::optional<Succession>& succession() const noexcept { return succession_; }
  /// For the thread that serves: of a standby.
  [[nodiscard]] bool has_given_up() const { return server_.has_given_up(); }
  [[nodiscard]] bool is_full_standby() const { return server_.is_full_standby(); }
  /// For the thread that serves: it has a copy on its disk alone, and no primary teaches it.
  [[nodiscard]] bool waits() const { return copy_ && !options_.replica.goes_on && !primary_; }

 private:
  /// But for where servers are reached, which may change.
  [[nodiscard]] Welcome welcome() const;
  [[nodiscard]] PartitionSettings settings() const;
  [[nodiscard]] ServerRole role();
  [[nodiscard]] bool follows() const {
    return options_.replica.seat != 0 || options_.replica.has_nothing || options_.replica.goes_on;
  }
  /// The address of the partition's other seat.
  [[nodiscard]] std::string other_address() const;
  [[nodiscard]] PrimaryServer ship_to_standby();
  /// As primary, alone at first.
  [[nodiscard]] PrimaryServer serve_alone();
  [[nodiscard]] std::optional<ShippingJournal::Way> reach_standby_again();
  [[nodiscard]] std::optional<ShippingJournal::Way> find_another_standby();
  void note_standing(ShippingJournal::Standing standing, bool standby_gave_up);
  [[nodiscard]] bool retract_alone();
  [[nodiscard]] bool is_other_dead(std::uint16_t incarnation) const {
    return options_.replica.is_dead(options_.self, 1 - options_.replica.seat, incarnation);
  }
  void look_at_other_seat();
  void look_whether_other_is_gone();
  [[nodiscard]] bool is_standby_dead() const;
  [[nodiscard]] bool is_primary_dead() const;
  [[nodiscard]] StandbyServer stand_by();
  [[nodiscard]] bool cut_off(PeerId client);
  [[nodiscard]] bool take_primarys_access();
  void note_given_up(std::string_view flaw);
  void say_whether_it_gave_up(bool did);
  [[nodiscard]] std::optional<StandbySide> standby_side();

  const ServiceOptions options_;
  const ServerNumber servers_;
  const net::Secret secret_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Region> memory_;
  std::unique_ptr<Region> bells_;
  service::OwnBell bell_;
  std::unique_ptr<Channel> channel_;  ///< of the thread that serves
  // For a server that has, or may be given, a standby.
  std::unique_ptr<ServerLink> to_standby_;
  std::string standbys_address_;
  std::unique_ptr<RemoteRegion> standbys_ring_;
  std::optional<StandbySeeker> seeker_;
  bool is_standby_replaced_ = false;  ///< its process has begun anew
  std::optional<Time> retracted_;     ///< when it was said that it is not alone any more; none: it is, or is not again
  ThrottledLog log_;
  // For a standby.
  std::optional<DurableCopy> copy_;  ///< of a partition with standbys and journals
  std::optional<OtherSeat> other_seat_;
  std::optional<Succession> succession_;
  std::optional<Time> gone_since_;  ///< the process in the other seat
  std::unique_ptr<Region> ring_;
  struct Primary {
    StandbySide::Primary process;
    StandbySide::PrimaryIs is;
    Time since;
    bool has_left = false;
  };
  std::optional<Primary> primary_;  ///< once it ships
  std::optional<Time> dead_since_;  ///< it was told to be
  MailboxInbox inbox_;
  PartitionServer server_;
  TaskQueue tasks_;
  net::EventLoop loop_;
  OtherServers others_;
  const std::optional<StandbySide> standby_side_;
  Clients clients_;
};

}  // namespace farside::kv
