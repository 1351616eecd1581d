// session_stack.h — a session, assembled with what it stands on: its channel, the way its requests go, and where the
// servers' memories are. The links are injected: a pool's (service/session_links.h) or those of a team's ranks.
//
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kv/client/atomic_session.h"
#include "kv/client/homed_requests.h"
#include "kv/mailbox/mailbox.h"

namespace farside::kv {

class SessionStack {
 public:
  /// Over servers without standbys, whose memories are given by number. `requests` go through `channel`.
  SessionStack(Fabric& fabric, std::unique_ptr<Channel> channel, std::unique_ptr<Requests> requests,
               std::vector<ServerMemory> memories, const SessionSettings& settings, const KvRules& rules = {})
      : channel_(std::move(channel)),
        memories_(std::move(memories)),
        requests_(std::move(requests)),
        session_(fabric, *channel_, *requests_, memories_, settings, rules) {}

  /// Over servers that have standbys: `seats` are their mailboxes, by number, then those of the standbys.
  SessionStack(Fabric& fabric, std::unique_ptr<Channel> channel, std::unique_ptr<MailboxRequests> seats,
               std::unique_ptr<Homes> homes, const SessionSettings& settings, const KvRules& rules = {})
      : channel_(std::move(channel)),
        homes_(std::move(homes)),
        seats_(std::move(seats)),
        requests_(std::make_unique<HomedRequests>(fabric, *homes_, *seats_)),
        session_(fabric, *channel_, *requests_, homes_->memories(), settings, rules, homes_.get()) {}

  SessionStack(const SessionStack&) = delete;
  SessionStack& operator=(const SessionStack&) = delete;

  [[nodiscard]] AtomicSession& session() noexcept { return session_; }
  [[nodiscard]] bool is_torn() const noexcept { return session_.is_torn(); }

 private:
  const std::unique_ptr<Channel> channel_;
  const std::vector<ServerMemory> memories_;      ///< without standbys
  const std::unique_ptr<Homes> homes_;            ///< with them
  const std::unique_ptr<MailboxRequests> seats_;  ///< as well
  const std::unique_ptr<Requests> requests_;
  AtomicSession session_;
};

}  // namespace farside::kv
