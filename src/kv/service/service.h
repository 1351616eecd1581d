// service.h — a key-value server as a process runs it: its store, its fabric, its clients, and what it needs of the
// other servers.
//
// Thread safety: wake from any thread; the rest is for one.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/journal/file_journal.h"
#include "kv/protocol/mailbox_inbox.h"
#include "kv/protocol/request_handler.h"
#include "kv/protocol/server.h"
#include "kv/protocol/terminator.h"
#include "kv/service/clients.h"
#include "kv/service/errands.h"
#include "kv/service/other_servers.h"
#include "team/event_loop.h"
#include "team/secret.h"

namespace farside::kv {

struct ServiceOptions {
  ServerNumber self = 0;
  std::vector<std::string> servers;  ///< where each is reached (socket.h), by number; the same at all
  std::vector<std::string> listen;   ///< where this one is
  bool remote_peers = false;         ///< some are on other hosts
  StoreSettings store;
  MailboxShape mailbox;
  Duration patience = std::chrono::seconds(1);  ///< with a client that was not heard of between prepare and commit
  std::optional<JournalSettings> journal{};     ///< none: nothing outlives the process
};

class Service {
 public:
  /// Has what its journal says. Clients may come from now on. Throws Error when it cannot listen, has not the memory,
  /// or cannot recover.
  Service(const ServiceOptions& options, const Secret& pool);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Serves until `ended`, which is asked now and then, and after a wake.
  void serve_until(const std::function<bool()>& ended);
  void wake();

 private:
  [[nodiscard]] Welcome welcome() const;

  const ServiceOptions options_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Region> memory_;
  std::unique_ptr<Region> bells_;
  std::unique_ptr<RemoteRegion> own_bells_;  ///< through the loopback
  std::mutex ringing_;                       // for the next
  std::unique_ptr<Channel> bell_channel_;
  std::unique_ptr<Channel> channel_;  ///< of the thread that serves
  Store store_;
  std::unique_ptr<Journal> journal_;
  LoggedStore logged_;
  RequestHandler handler_;
  MailboxInbox inbox_;
  Server server_;
  Errands errands_;
  EventLoop loop_;
  OtherServers others_;
  Terminator terminator_;
  Clients clients_;
};

}  // namespace farside::kv
