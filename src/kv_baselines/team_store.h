// team_store.h — a store within a team: its first ranks serve, the others have sessions. Everything that servers and
// clients need of each other's memory is allocated by all ranks together.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "farside/team/team.h"

#include "kv/client/session_stack.h"
#include "kv/service/partition_server.h"
#include "kv_baselines/transports/team_transport.h"

namespace farside::kv_baselines {

/// The same on all ranks, but for the journal's directory.
struct TeamStoreOptions {
  kv::ServerNumber servers = 1;  ///< ranks that follow each other
  std::uint32_t copies = 1;      ///< 2: as many ranks follow these, a standby of each
  bool has_spares = false;       ///< and then as many, which take the places of standbys that have died
  team::Rank first_server = 0;
  std::uint32_t sessions = 1;  ///< of each other rank
  kv::StoreSettings store;
  Transport transport = Transport::mailbox;
  kv::MailboxShape mailbox;
  kv::Waking waking = kv::Waking::doorbell;
  Duration patience = std::chrono::seconds(1);   ///< with a client that was not heard of between prepare and commit
  std::optional<kv::JournalSettings> journal{};  ///< of this rank, when it serves; none: nothing outlives it
  std::uint64_t ring_bytes = 8U << 20U;          ///< of what ships a server's changes to its standby
  kv::ShippingTimeouts shipping{};
  kv::TellingTimeouts telling{};
  kv::ReplyTimeouts replies{};                    ///< over mailboxes
  Duration first_slice = kv::Homes::kFirstSlice;  ///< of a wait for a primary that has a standby
  /// Connects a primary to its standby again, whose connection broke; false: it cannot. None: nothing does.
  std::function<bool(team::Rank standby)> reach_again{};
  /// With spares: `rank` joins that one (admit). Returns the spare's epoch then; none: it does not answer, or not yet.
  std::function<std::optional<std::uint64_t>(team::Rank spare, team::Rank rank)> join{};
  bool joins_early = false;                           ///< a spare, also while the primary is alone
  Duration revoke_limit = std::chrono::seconds(5);    ///< of one attempt to take a process's access away
  Duration ask_alone = std::chrono::milliseconds(1);  ///< for a primary to say whether it is alone
  std::optional<Duration> lease{};  ///< a standby may be unable to reach processes that its primary reaches
  kv::KvRules rules;
  kv::ReplicaRules replica_rules{};

  /// Ranks that serve, or will when another one is dead.
  [[nodiscard]] kv::ServerNumber seats() const { return servers * (has_spares ? 3 : copies); }
};

class TeamStore {
 public:
  /// Collective; returns when all servers can be asked.
  TeamStore(team::Team& team, const TeamStoreOptions& options);

  [[nodiscard]] bool serves() const { return transport_.serves(team_.rank()); }
  /// On a rank that serves: until `ended`, which is asked now and then.
  void serve_until(const std::function<bool()>& ended);
  /// On a rank that is a standby: it could not follow its primary.
  [[nodiscard]] bool has_given_up() const { return server_ != nullptr && server_->has_given_up(); }
  /// On a rank that is a spare: that rank is told when it serves, from when this returns the spare's epoch on, which
  /// its own thread has said. Thread safety: as the simulator's.
  std::optional<std::uint64_t> admit(team::Rank rank);
  /// On a rank that is a primary: what its standby has.
  [[nodiscard]] kv::ShippingJournal::Standing standing() const { return server_->standing(); }
  /// On a rank that is a standby, or a spare.
  [[nodiscard]] bool is_full_standby() const { return server_->is_full_standby(); }
  /// On another rank: its session `number`, below `sessions`. Once.
  [[nodiscard]] std::unique_ptr<kv::SessionStack> open_session(std::uint32_t number, kv::SessionSettings settings);

 private:
  void begin_to_serve();
  [[nodiscard]] kv::ServerRole role();
  [[nodiscard]] kv::PrimaryServer ship_to_standby();
  [[nodiscard]] kv::StandbyServer stand_by();
  [[nodiscard]] bool retract_alone();
  bool admit_all();
  void tell_at_promotion(kv::EpochWords& words);
  /// The standby of each partition as one session or server knows it.
  struct Standbys;
  [[nodiscard]] kv::Homes::StandbyIs how_is_standby(Standbys& standbys, kv::ServerNumber partition);
  void reach_other_servers();
  [[nodiscard]] kv::ServerMemory read_head(kv::ServerNumber seat);
  /// For a session, with where the servers' memories are.
  struct Homed {
    std::unique_ptr<kv::MailboxRequests> seats;
    std::unique_ptr<kv::Homes> homes;
  };
  [[nodiscard]] Homed find_homes(Channel& channel, std::uint32_t number, bool is_for_session);
  [[nodiscard]] static std::uint64_t epoch_offset(kv::ServerNumber partition) {
    return partition * sizeof(ControlWord);
  }
  [[nodiscard]] std::uint64_t alone_offset(kv::ServerNumber partition) const {
    return epoch_offset(options_.servers + partition);
  }
  [[nodiscard]] RemoteWord<ControlWord> alone_of(kv::ServerNumber partition) const {
    return epochs_->of(primary_of(partition)).word<ControlWord>(alone_offset(partition));
  }
  [[nodiscard]] LocalWord<ControlWord> own_alone() const {
    return epochs_->local().word<ControlWord>(alone_offset(partition()));
  }
  /// To primaries and standbys. Over mailboxes alone there are these.
  [[nodiscard]] std::unique_ptr<kv::MailboxRequests> open_seats(Channel& channel, std::uint32_t number);

  [[nodiscard]] bool has_standbys() const { return options_.copies > 1; }
  [[nodiscard]] kv::ServerNumber seat() const { return team_.rank() - options_.first_server; }
  [[nodiscard]] kv::ServerNumber partition() const { return seat() % options_.servers; }
  [[nodiscard]] bool is_standby() const { return seat() >= options_.servers; }
  [[nodiscard]] bool is_spare() const { return seat() >= 2 * options_.servers; }
  [[nodiscard]] team::Rank primary_of(kv::ServerNumber partition) const { return transport_.rank_of(partition); }
  [[nodiscard]] team::Rank standby_of(kv::ServerNumber partition) const {
    return transport_.rank_of(options_.servers + partition);
  }
  [[nodiscard]] team::Rank spare_of(kv::ServerNumber partition) const {
    return transport_.rank_of(2 * options_.servers + partition);
  }

  team::Team& team_;
  TeamStoreOptions options_;
  std::unique_ptr<team::SymmetricRegion> memory_;
  TeamTransport transport_;
  std::unique_ptr<team::SymmetricRegion> rings_;  ///< where the primary of a standby writes its changes
  std::unique_ptr<team::SymmetricRegion>
      epochs_;  ///< of each partition; then, with leases, of each that its primary is alone
  // State of a rank that serves.
  team::Rank own_standby_ = 0;                                 ///< of a primary
  std::optional<Time> retracted_since_;                        ///< it has a standby again
  std::map<team::Rank, std::optional<std::uint64_t>> joined_;  ///< of a spare: with its epoch then; none: it will
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<kv::Inbox> inbox_;
  Homed homed_;
  std::unique_ptr<kv::Requests> to_servers_;
  std::unique_ptr<kv::PartitionServer> server_;
};

}  // namespace farside::kv_baselines
