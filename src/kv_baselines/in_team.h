// in_team.h — a store within a team: its first ranks serve, the others have sessions. Everything that servers and
// clients need of each other's memory is allocated by all ranks together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "farside/team/team.h"

#include "kv/client/atomic_session.h"
#include "kv/client/homed_requests.h"
#include "kv/journal/file_journal.h"
#include "kv/replication/shipping_journal.h"
#include "kv/replication/standby.h"
#include "kv/server/request_handler.h"
#include "kv/server/server.h"
#include "kv/server/terminator.h"
#include "kv_baselines/transports/team_transport.h"

namespace farside::kv_baselines {

/// The same on all ranks, but for the journal's directory.
struct InTeamOptions {
  kv::ServerNumber servers = 1;  ///< ranks that follow each other
  std::uint32_t copies = 1;      ///< 2: as many ranks follow these, a standby of each
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
  Duration revoke_limit = std::chrono::seconds(5);  ///< of one attempt to take a process's access away
  std::optional<Duration> lease{};  ///< a standby may be unable to reach processes that its primary reaches
  kv::KvRules rules;
  kv::ReplicaRules replica_rules{};

  /// Ranks that serve, or will when another one is dead.
  [[nodiscard]] kv::ServerNumber seats() const { return servers * copies; }
};

/// A session with all that it stands on.
class TeamSession {
 public:
  TeamSession(Fabric& fabric, std::unique_ptr<Channel> channel, std::unique_ptr<kv::Requests> requests,
              std::vector<kv::ServerMemory> memories, const kv::SessionSettings& settings, const kv::KvRules& rules);
  /// Over servers that have standbys.
  TeamSession(Fabric& fabric, std::unique_ptr<Channel> channel, std::unique_ptr<kv::MailboxRequests> seats,
              std::unique_ptr<kv::Homes> homes, const kv::SessionSettings& settings, const kv::KvRules& rules);

  [[nodiscard]] kv::AtomicSession& session() noexcept { return session_; }

 private:
  std::unique_ptr<Channel> channel_;
  std::vector<kv::ServerMemory> memories_;
  std::unique_ptr<kv::Homes> homes_;
  std::unique_ptr<kv::MailboxRequests> seats_;
  std::unique_ptr<kv::Requests> requests_;
  kv::AtomicSession session_;
};

class InTeam {
 public:
  /// Collective; returns when all servers can be asked.
  InTeam(team::Team& team, const InTeamOptions& options);

  [[nodiscard]] bool serves() const { return transport_.serves(team_.rank()); }
  /// On a rank that serves: until `ended`, which is asked now and then.
  void serve_until(const std::function<bool()>& ended);
  /// On a rank that is a standby: it could not follow its primary.
  [[nodiscard]] bool has_given_up() const { return standby_ != nullptr && standby_->has_given_up(); }
  /// On another rank: its session `number`, below `sessions`. Once.
  [[nodiscard]] std::unique_ptr<TeamSession> open_session(std::uint32_t number, kv::SessionSettings settings);

 private:
  void begin_to_serve();
  void open_journal();
  void begin_to_stand_by();
  void reach_other_servers();
  [[nodiscard]] kv::ServerMemory read_head(kv::ServerNumber seat);
  /// For a session, with where the servers' memories are.
  [[nodiscard]] std::unique_ptr<kv::Homes> find_homes(Channel& channel, bool is_for_session);
  [[nodiscard]] static std::uint64_t epoch_offset(kv::ServerNumber partition) {
    return partition * sizeof(ControlWord);
  }
  [[nodiscard]] std::uint64_t alone_offset(kv::ServerNumber partition) const {
    return epoch_offset(options_.servers + partition);
  }
  /// Over mailboxes alone there are standbys.
  [[nodiscard]] std::unique_ptr<kv::MailboxRequests> open_seats(Channel& channel, std::uint32_t number);

  [[nodiscard]] bool has_standbys() const { return options_.copies > 1; }
  [[nodiscard]] kv::ServerNumber seat() const { return team_.rank() - options_.first_server; }
  [[nodiscard]] kv::ServerNumber partition() const { return seat() % options_.servers; }
  [[nodiscard]] bool is_standby() const { return seat() >= options_.servers; }
  [[nodiscard]] team::Rank primary_of(kv::ServerNumber partition) const { return transport_.rank_of(partition); }
  [[nodiscard]] team::Rank standby_of(kv::ServerNumber partition) const {
    return transport_.rank_of(options_.servers + partition);
  }

  team::Team& team_;
  InTeamOptions options_;
  std::unique_ptr<team::SymmetricRegion> memory_;
  TeamTransport transport_;
  std::unique_ptr<team::SymmetricRegion> rings_;  ///< where the primary of a standby writes its changes
  std::unique_ptr<team::SymmetricRegion>
      epochs_;  ///< of each partition; then, with leases, of each that its primary is alone
  // State of a rank that serves.
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<kv::Store> store_;
  std::unique_ptr<kv::Journal> journal_;
  const kv::ShippingJournal* shipping_ = nullptr;
  std::unique_ptr<kv::EpochWords> words_;
  std::unique_ptr<kv::Standby> standby_;
  std::unique_ptr<kv::LoggedStore> logged_;
  std::unique_ptr<kv::RequestHandler> handler_;
  std::unique_ptr<kv::Inbox> inbox_;
  std::unique_ptr<kv::Homes> homes_;
  std::unique_ptr<kv::MailboxRequests> to_seats_;
  std::unique_ptr<kv::Requests> to_servers_;
  std::unique_ptr<kv::Terminator> terminator_;
  std::unique_ptr<kv::Server> server_;
};

}  // namespace farside::kv_baselines
