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
  bool has_spares = false;       ///< and then as many, which become standbys of servers that have lost theirs
  team::Rank first_server = 0;
  std::uint32_t sessions = 1;  ///< of each other rank
  kv::StoreSettings store;
  Transport transport = Transport::mailbox;
  kv::MailboxShape mailbox;
  kv::Waking waking = kv::Waking::doorbell;
  Duration termination_timeout =
      std::chrono::seconds(1);                   ///< with a client that was not heard of between prepare and commit
  std::optional<kv::JournalSettings> journal{};  ///< of this rank, when it serves; none: nothing outlives it
  std::uint64_t ring_bytes = 8U << 20U;          ///< of what ships a server's changes to its standby
  kv::ShippingSettings shipping{};
  kv::TellingTimeouts telling{};
  kv::ReplyTimeouts replies{};                    ///< over mailboxes
  Duration first_slice = kv::Homes::kFirstSlice;  ///< of a wait for a primary that has a standby
  /// Connects a server to its standby again, whose connection broke; false: it cannot. None: nothing does.
  std::function<bool(team::Rank standby)> reach_again{};
  /// With spares: `rank` joins that one (admit). Returns the spare's epoch then; none: it does not answer, or not yet.
  std::function<std::optional<std::uint64_t>(team::Rank spare, team::Rank rank)> join{};
  /// With spares: `rank` ships its changes to that one from now on (follow).
  std::function<bool(team::Rank spare, team::Rank rank)> ship{};
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
  /// On a rank that is a spare: its primary; once. False: it has one. Thread safety: as the simulator's.
  bool follow(team::Rank primary);
  /// On a rank that serves: what its standby has.
  [[nodiscard]] kv::ShippingJournal::Standing standing() const { return server_->standing(); }
  /// On a rank that is a standby, or a spare.
  [[nodiscard]] bool is_full_standby() const { return server_->is_full_standby(); }
  /// On another rank: its session `number`, below `sessions`. Once.
  [[nodiscard]] std::unique_ptr<kv::SessionStack> open_session(std::uint32_t number, kv::SessionSettings settings);

 private:
  void begin_to_serve();
  [[nodiscard]] kv::ServerRole role();
  /// With a standby, or alone.
  [[nodiscard]] kv::PrimaryServer ship_to(std::optional<team::Rank> standby);
  [[nodiscard]] kv::StandbyServer stand_by();
  [[nodiscard]] bool retract_alone();
  bool admit_all();
  void tell_at_promotion(kv::EpochWords& words);
  /// The servers of each partition as one session or server knows them.
  struct Known;
  [[nodiscard]] kv::Homes::StandbyIs how_is_standby(Known& known, kv::ServerNumber partition);
  /// The server in `seat`, as a session that has joined it knows it.
  [[nodiscard]] kv::Homes::Primary server(const Known& known, kv::ServerNumber seat);
  [[nodiscard]] kv::Homes::Standby standby(const Known& known, kv::ServerNumber seat, std::uint64_t epoch);
  void reach_other_servers();
  [[nodiscard]] kv::ServerMemory read_head(kv::ServerNumber seat);
  /// For a session, with where the servers' memories are.
  struct Homed {
    std::unique_ptr<kv::MailboxRequests> seats;
    std::unique_ptr<kv::Homes> homes;
  };
  [[nodiscard]] Homed find_homes(Channel& channel, std::uint32_t number, bool is_for_session);
  [[nodiscard]] static std::uint64_t epoch_offset(kv::ServerNumber seat) { return seat * sizeof(ControlWord); }
  [[nodiscard]] std::uint64_t alone_offset() const { return epoch_offset(options_.seats()); }
  [[nodiscard]] RemoteWord<ControlWord> alone_of(kv::ServerNumber seat) const {
    return epochs_->of(transport_.rank_of(seat)).word<ControlWord>(alone_offset());
  }
  [[nodiscard]] LocalWord<ControlWord> own_alone() const { return epochs_->local().word<ControlWord>(alone_offset()); }
  [[nodiscard]] static std::uint64_t identity(team::Rank rank) { return kv::Homes::kIsAlone + 1 + rank; }
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
  /// On each rank a word of each seat, by which that tells its epoch; then which standby it has itself.
  std::unique_ptr<team::SymmetricRegion> epochs_;
  // State of a rank that serves.
  team::Rank own_standby_ = 0;                                 ///< unless it is alone
  std::optional<team::Rank> primary_;                          ///< of a standby, once it ships
  std::optional<Time> retracted_since_;                        ///< it has a standby again
  std::map<team::Rank, std::optional<std::uint64_t>> joined_;  ///< of a spare: with its epoch then; none: it will
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<kv::Inbox> inbox_;
  Homed homed_;
  std::unique_ptr<kv::Requests> to_servers_;
  std::unique_ptr<kv::PartitionServer> server_;
};

}  // namespace farside::kv_baselines
