// partition_server.h — a partition's server, assembled: its store, its journal or other copy, and the loop that serves.
// The links to clients and to other servers are injected: in a pool they are sockets and mailboxes over the fabric
// (service.h), in the simulator and the benchmarks the regions of a team.
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "farside/fabric/fabric.h"

#include "kv/journal/file_journal.h"
#include "kv/protocol/inbox.h"
#include "kv/protocol/requests.h"
#include "kv/protocol/rules.h"
#include "kv/protocol/time_limits.h"
#include "kv/replication/copies_journal.h"
#include "kv/replication/shipping_journal.h"
#include "kv/replication/standby.h"
#include "kv/server/request_handler.h"
#include "kv/server/server.h"
#include "kv/server/terminator.h"

namespace farside::kv {

/// The partition's only server.
struct SoleServer {
  std::optional<JournalSettings> journal{};  ///< none: nothing outlives the process
};

/// The server that serves until it is dead. It ships its changes to the standby.
struct PrimaryServer {
  std::optional<ShippingJournal::Way> standby;  ///< none: it is alone
  ShippingJournal::IsDead is_standby_dead;
  ShippingJournal::ReachAgain reach_again;
  /// Called when that changes. `gave_up`: the last standby had, and is not dead.
  std::function<void(ShippingJournal::Standing standing, bool gave_up)> note_standing;
  /// Asked now and then while it is alone: another standby, which has nothing. Does not wait.
  std::function<std::optional<ShippingJournal::Way>()> find_another{};
  ShippingJournal::RetractAlone retract_alone{};
  ShippingSettings shipping{};
};

/// The server that follows the primary until that is dead, and serves then, alone at first. With a disk it may also go
/// on from there: it serves from its start on what that has.
struct StandbyServer {
  const Region& ring;  ///< new; the primary writes its changes there
  ShippedLog::Begins begins = ShippedLog::Begins::full;
  std::optional<EpochWords::Leases> leases;
  EpochWords::CutOff cut_off;
  Standby::IsDead is_primary_dead;
  Standby::TakeAccess take_primarys_access;
  std::function<void(std::string_view flaw)> note_given_up;  ///< called once, when it could not follow
  PrimaryServer promoted;
  TellingTimeouts timeouts{};
  CopyOnDisk* disk = nullptr;  ///< none: nothing outlives the process; outlives the server
  bool goes_on = false;
};

using ServerRole = std::variant<SoleServer, PrimaryServer, StandbyServer>;

struct PartitionSettings {
  Partition partition;
  StoreSettings store;
  Duration termination_timeout =
      time_limits::kUndecided;  ///< with a client that was not heard of between prepare and commit
  KvRules rules{};
  ReplicaRules replica_rules{};
};

class PartitionServer {
 public:
  /// Has what its journal says. `memory` and `inbox`, and what `role` refers to, outlive this. Throws Error when it
  /// cannot recover.
  PartitionServer(Fabric& fabric, Channel& channel, const Region& memory, Inbox& inbox,
                  const PartitionSettings& settings, const ServerRole& role);
  PartitionServer(const PartitionServer&) = delete;
  PartitionServer& operator=(const PartitionServer&) = delete;

  /// `servers` reaches all servers of the store, and outlives this. Once, before serve_until.
  void ask_others_by(Requests& servers);
  void add_chore(Server::Chore chore) { server_.add_chore(std::move(chore)); }
  /// Serves until `ended`, which is asked at least every 20 ms.
  void serve_until(const std::function<bool()>& ended) { server_.serve_until(ended); }

  /// Whether clients are answered: always, but by a standby whose primary lives.
  [[nodiscard]] bool serves() const { return !standby_ || standby_->serves(); }
  /// That of its partition, since which it serves; 0, too, when it does not.
  [[nodiscard]] std::uint64_t epoch() const { return standby_ ? standby_->epoch() : 0; }
  /// A standby that could not follow its primary.
  [[nodiscard]] bool has_given_up() const { return standby_ && standby_->has_given_up(); }
  /// A standby that may be promoted.
  [[nodiscard]] bool is_full_standby() const { return standby_ && standby_->is_full() && !standby_->has_given_up(); }
  /// A standby that found nothing in its ring when it looked last.
  [[nodiscard]] bool has_nothing_to_follow() const noexcept { return !was_busy_; }
  /// The share that a primary's standby has; full, too, of a server that never has one.
  [[nodiscard]] ShippingJournal::Standing standing() const noexcept { return standing_; }
  [[nodiscard]] const Store& store() const noexcept { return store_; }
  /// Requires: it is a standby. The words of the processes that are told when it serves.
  [[nodiscard]] EpochWords& epoch_words();

 private:
  [[nodiscard]] std::unique_ptr<Journal> begin(const SoleServer& role);
  [[nodiscard]] std::unique_ptr<Journal> begin(const PrimaryServer& role);
  [[nodiscard]] std::unique_ptr<ShippingJournal> begin_shipping(const PrimaryServer& role);
  [[nodiscard]] std::unique_ptr<Journal> begin(const StandbyServer& role);
  bool follow_primary();
  void begin_to_serve();
  void note_standing();
  void look_after_standby();

  Fabric& fabric_;
  Channel& channel_;
  const PartitionSettings settings_;
  Store store_;
  // For a server that has, or may be given, a standby.
  std::optional<PrimaryServer> primary_;
  ShippingJournal* shipping_ = nullptr;
  CopiesJournal* copies_ = nullptr;                                       ///< null: it has no disk
  ShippingJournal::Standing standing_ = ShippingJournal::Standing::full;  ///< as it was noted last
  // For a standby.
  std::optional<EpochWords> words_;
  std::optional<Standby> standby_;
  std::function<void(std::string_view)> note_given_up_;
  bool was_busy_ = false;
  const std::unique_ptr<Journal> journal_;
  LoggedStore logged_;
  RequestHandler handler_;
  Server server_;
  std::optional<Terminator> terminator_;
};

}  // namespace farside::kv
