// in_team.h — a store within a team: its first ranks serve, the others have sessions. Everything that servers and
// clients need of each other's memory is allocated by all ranks together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "farside/team/team.h"

#include "kv/journal/file_journal.h"
#include "kv/protocol/atomic_session.h"
#include "kv/protocol/request_handler.h"
#include "kv/protocol/server.h"
#include "kv/protocol/terminator.h"
#include "kv/transports/team_transport.h"

namespace farside::kv {

/// The same on all ranks, but for the journal's directory.
struct InTeamOptions {
  ServerNumber servers = 1;  ///< ranks that follow each other
  Rank first_server = 0;
  std::uint32_t sessions = 1;  ///< of each other rank
  StoreSettings store;
  Transport transport = Transport::mailbox;
  MailboxShape mailbox;
  Waking waking = Waking::doorbell;
  Duration patience = std::chrono::seconds(1);  ///< with a client that was not heard of between prepare and commit
  std::optional<JournalSettings> journal{};     ///< of this rank, when it serves; none: nothing outlives it
  KvRules rules;
};

/// A session with all that it stands on.
class TeamSession {
 public:
  TeamSession(Fabric& fabric, std::unique_ptr<Channel> channel, std::unique_ptr<Requests> requests,
              std::vector<ServerMemory> memories, const SessionSettings& settings, const KvRules& rules);

  [[nodiscard]] AtomicSession& session() noexcept { return session_; }

 private:
  std::unique_ptr<Channel> channel_;
  std::vector<ServerMemory> memories_;
  std::unique_ptr<Requests> requests_;
  AtomicSession session_;
};

class InTeam {
 public:
  /// Collective; returns when all servers can be asked.
  InTeam(Team& team, const InTeamOptions& options);

  [[nodiscard]] bool serves() const { return transport_.serves(team_.rank()); }
  /// On a rank that serves: until `ended`, which is asked now and then.
  void serve_until(const std::function<bool()>& ended);
  /// On another rank: its session `number`, below `sessions`. Once.
  [[nodiscard]] std::unique_ptr<TeamSession> open_session(std::uint32_t number, SessionSettings settings);

 private:
  void begin_to_serve();
  void reach_other_servers();
  [[nodiscard]] ServerMemory read_head(ServerNumber server);

  Team& team_;
  InTeamOptions options_;
  std::unique_ptr<SymmetricRegion> memory_;
  TeamTransport transport_;
  // Of a rank that serves.
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<FileJournal> journal_;
  std::unique_ptr<LoggedStore> logged_;
  std::unique_ptr<RequestHandler> handler_;
  std::unique_ptr<Inbox> inbox_;
  std::unique_ptr<Requests> to_servers_;
  std::unique_ptr<Terminator> terminator_;
  std::unique_ptr<Server> server_;
};

}  // namespace farside::kv
