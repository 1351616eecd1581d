// team_transport.h — requests between the ranks of a team, over any of the transports.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "farside/team/team.h"

#include "kv/mailbox/mailbox.h"
#include "kv/mailbox/served_mailbox.h"
#include "kv/protocol/inbox.h"

namespace farside::kv_baselines {

enum class Transport : std::uint8_t {
  mailbox,       ///< RDMA WRITE into memory of the receiver, which looks there (GET+, PUT+)
  send_receive,  ///< two-sided messages: buffers that the receiver posts, and completions (GET, PUT over verbs)
  socket,        ///< TCP (GET, PUT)
};

/// The same on all ranks.
struct TransportOptions {
  kv::ServerNumber servers = 1;  ///< ranks that follow each other
  team::Rank first_server = 0;
  std::uint32_t sessions = 1;  ///< of each other rank; a server has one
  Transport transport = Transport::mailbox;
  kv::Waking waking = kv::Waking::doorbell;  ///< of mailboxes
  kv::MailboxShape mailbox{};                ///< and of the queues of send_receive
  kv::ReplyTimeouts replies{};               ///< by mailboxes
};

class TeamTransport {
 public:
  /// Collective. Throws Error.
  TeamTransport(team::Team& team, const TransportOptions& options);

  [[nodiscard]] team::Rank rank_of(kv::ServerNumber server) const { return options_.first_server + server; }
  [[nodiscard]] bool serves(team::Rank rank) const {
    return rank >= options_.first_server && rank < rank_of(options_.servers);
  }

  /// For a rank that serves: the requests of all sessions. It posts through the channel that it was given.
  [[nodiscard]] std::unique_ptr<kv::Inbox> open_inbox(Channel& channel);
  /// To all servers, of this rank's session `number`. Once. Sockets connect: the servers' inboxes are open by then.
  [[nodiscard]] std::unique_ptr<kv::Requests> open_requests(Channel& channel, std::uint32_t number);
  /// Among mailboxes: that of this rank's session `session` at a server.
  [[nodiscard]] kv::MailboxEnd end_of_server(std::uint32_t session, kv::ServerNumber server);

 private:
  /// The place of the rings of a session and a server: at both in the same region, at the same offset.
  struct Place {
    const team::SymmetricRegion* region;
    std::uint64_t offset;
  };
  [[nodiscard]] std::unique_ptr<team::SymmetricRegion> allocate(const std::string& name, std::uint64_t clients,
                                                                std::uint64_t more_bytes);
  [[nodiscard]] Place place(team::Rank client, std::uint32_t session, kv::ServerNumber server) const;
  [[nodiscard]] kv::MailboxEnd end(team::Rank other, const Place& place);
  [[nodiscard]] std::uint64_t bell_offset() const;

  team::Team& team_;
  const TransportOptions options_;
  std::unique_ptr<team::SymmetricRegion> of_servers_;  ///< of their sessions, and behind them what wakes a server
  std::vector<std::unique_ptr<team::SymmetricRegion>> by_session_;  ///< apart: a waiter in one is woken with it alone
};

}  // namespace farside::kv_baselines
