// service_client.h — a process's connections to all servers, and the sessions that it has over them.
//
// Thread safety: ServiceClient, every call from any thread. A session belongs to one thread at a time.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "farside/fabric/fabric.h"
#include "farside/kv/client.h"

#include "kv/protocol/atomic_session.h"
#include "kv/protocol/mailbox.h"
#include "kv/service/server_link.h"
#include "kv/timed_session.h"
#include "team/event_loop.h"

namespace farside::kv {

using ServerLinks = std::vector<std::shared_ptr<ServerLink>>;

/// What a session stands on. Its mailboxes are closed when this goes.
class SessionLinks {
 public:
  SessionLinks(Fabric& fabric, ServerLinks links, Waking waking, SetupClock::time_point deadline);
  ~SessionLinks();
  SessionLinks(const SessionLinks&) = delete;
  SessionLinks& operator=(const SessionLinks&) = delete;

  [[nodiscard]] ServerMemories memories() const noexcept { return memories_; }
  [[nodiscard]] std::vector<MailboxEnd> ends() const;
  [[nodiscard]] const MailboxShape& shape() const { return links_.front()->welcome().mailbox; }

 private:
  explicit SessionLinks(ServerLinks links) : links_(std::move(links)) {}

  ServerLinks links_;
  std::unique_ptr<Region> rings_;
  std::vector<ServerLink::Mailbox> opened_;  ///< by server, as are
  std::vector<ServerMemory> memories_;
};

/// A session's parts, made before it is one.
struct SessionParts {
  SessionParts(Fabric& fabric, ServerLinks to, const SessionSettings& settings, Waking waking,
               SetupClock::time_point deadline);

  SessionLinks links;
  std::unique_ptr<Channel> channel;
  MailboxRequests requests;
  AtomicSession session;
};

class ServiceSession final : private SessionParts, public TimedSession {
 public:
  ServiceSession(Fabric& fabric, ServerLinks to, const SessionSettings& settings, Waking waking,
                 std::chrono::milliseconds time_out, SetupClock::time_point deadline)
      : SessionParts(fabric, std::move(to), settings, waking, deadline),
        TimedSession(fabric, SessionParts::session, time_out) {}
};

class ServiceClient {
 public:
  /// `entries`: where servers may be reached; one that answers names the others. Throws Error when none answers, or one
  /// of the others does not, within `limit`.
  ServiceClient(std::span<const std::string> entries, const Secret& pool, std::chrono::milliseconds limit);
  ~ServiceClient();
  ServiceClient(const ServiceClient&) = delete;
  ServiceClient& operator=(const ServiceClient&) = delete;

  [[nodiscard]] ServerNumber servers() const noexcept { return static_cast<ServerNumber>(addresses_.size()); }

  /// As Client::open_session; may wait for `limit`.
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options, std::chrono::milliseconds limit);

 private:
  [[nodiscard]] std::shared_ptr<ServerLink> link_to(ServerNumber server, SetupClock::time_point deadline);

  const Secret secret_;
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::string> addresses_;  ///< by number
  EventLoop loop_;
  std::mutex mutex_;  // for the links
  ServerLinks links_;
};

}  // namespace farside::kv
