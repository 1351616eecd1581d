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
  ShippingJournal::Way standby;
  ShippingJournal::IsDead is_standby_dead;
  ShippingJournal::ReachAgain reach_again;
  std::function<void(bool gave_up)> note_alone;  ///< called once, when the standby is dead or has given up
  ShippingTimeouts timeouts{};
};

/// The server that follows the primary until that is dead, and serves then.
struct StandbyServer {
  const Region& ring;  ///< new; the primary writes its changes there
  std::optional<EpochWords::Leases> leases;
  EpochWords::CutOff cut_off;
  Standby::IsDead is_primary_dead;
  Standby::TakeAccess take_primarys_access;
  std::function<void(std::string_view flaw)> note_given_up;  ///< called once, when it could not follow
  TellingTimeouts timeouts{};
};

using ServerRole = std::variant<SoleServer, PrimaryServer, StandbyServer>;

struct PartitionSettings {
  Partition partition;
  StoreSettings store;
  Duration patience = time_limits::kUndecided;  ///< with a client that was not heard of between prepare and commit
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
  /// A standby that could not follow its primary.
  [[nodiscard]] bool has_given_up() const { return standby_ && standby_->has_given_up(); }
  /// Requires: it is a standby. The words of the processes that are told when it serves.
  [[nodiscard]] EpochWords& epoch_words();

 private:
  [[nodiscard]] std::unique_ptr<Journal> begin(const SoleServer& role);
  [[nodiscard]] std::unique_ptr<Journal> begin(const PrimaryServer& role);
  [[nodiscard]] std::unique_ptr<Journal> begin(const StandbyServer& role);
  bool follow_primary();
  void see_whether_alone();

  Fabric& fabric_;
  Channel& channel_;
  const PartitionSettings settings_;
  Store store_;
  // For a primary that has a standby.
  const ShippingJournal* shipping_ = nullptr;  ///< null as well once it is known to be alone
  std::function<void(bool)> note_alone_;
  // For a standby.
  std::optional<EpochWords> words_;
  std::optional<Standby> standby_;
  std::function<void(std::string_view)> note_given_up_;
  const std::unique_ptr<Journal> journal_;
  LoggedStore logged_;
  RequestHandler handler_;
  Server server_;
  std::optional<Terminator> terminator_;
};

}  // namespace farside::kv
