// other_servers.h — how a server asks the others what became of a transaction. Seldom needed, so none is connected to
// before there is something to ask; and since the thread that asks must not wait, a thread that sleeps otherwise
// connects.
//
// Thread safety: one thread at a time, that of the channel, which also runs the tasks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "farside/fabric/fabric.h"

#include "base/mutex.h"
#include "base/task_queue.h"
#include "kv/mailbox/mailbox.h"
#include "kv/service/server_link.h"
#include "service/addresses.h"

namespace farside::kv {

class OtherServers final : public Requests {
 public:
  /// Whether the process that had that seat of a partition in that incarnation is dead.
  using IsDead = std::function<bool(ServerNumber partition, unsigned seat, std::uint16_t incarnation)>;

  /// `addresses` of each partition's first seat, and those of the second ones, if there are any. The server that serves
  /// is asked, whichever seat it has. Each becomes a peer of `fabric` (ServerLink::peer).
  OtherServers(net::EventLoop& loop, Fabric& fabric, Channel& channel, TaskQueue& tasks, const net::Secret& secret,
               service::AddressesNow addresses, service::AddressesNow standbys, IsDead is_dead,
               const MailboxShape& shape);
  /// No task may run any more.
  ~OtherServers() override;

  [[nodiscard]] ServerNumber servers() const override { return static_cast<ServerNumber>(asked_.size()); }
  /// peer_lost while it is being connected to.
  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) override;
  Result<Message> receive(ServerNumber server, Deadline deadline) override;
  [[nodiscard]] bool has_reply(ServerNumber server) override;

 private:
  /// The connection for questions to one server.
  struct Line {
    std::shared_ptr<ServerLink> link;
    std::unique_ptr<Region> ring;
    ServerLink::Mailbox mailbox;
    std::unique_ptr<MailboxRequests> requests{};
  };
  struct Asked {
    std::unique_ptr<Line> line;
    std::size_t unanswered = 0;  ///< on that line
    std::size_t failed = 0;      ///< asked on a line that is no more
    bool connecting = false;
  };

  /// Whether the connection for questions to it is usable.
  [[nodiscard]] bool reaches(ServerNumber server) const;
  void connect_when_wanted(const std::stop_token& stop);
  [[nodiscard]] Line connect(ServerNumber server);
  [[nodiscard]] std::shared_ptr<ServerLink> link_to(ServerNumber server);
  [[nodiscard]] std::shared_ptr<ServerLink> link_to(const std::string& address);
  [[nodiscard]] bool is_dead(const ServerLink& link) const;
  void take(Asked& asked, Line line);

  net::EventLoop& loop_;
  Fabric& fabric_;
  Channel& channel_;
  TaskQueue& tasks_;
  const net::Secret secret_;
  const service::AddressesNow addresses_;
  const service::AddressesNow standbys_;
  const IsDead is_dead_;
  const MailboxShape shape_;
  std::vector<Asked> asked_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<ServerNumber> wanted_ GUARDED_BY(mutex_);
  std::jthread connector_;
};

}  // namespace farside::kv
