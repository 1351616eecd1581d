// clients.h — the clients of a server: who may come, how each is reached, and the mailboxes it asked for. A client
// lives as long as its socket is open; when it goes, so does everything that was made for it.
//
// Sockets are the business of a thread that sleeps; mailboxes that of the one that serves, which is told by errands.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "farside/base/fd.h"
#include "farside/fabric/fabric.h"

#include "base/throttled_log.h"
#include "kv/protocol/mailbox_inbox.h"
#include "kv/service/errands.h"
#include "kv/service/link_messages.h"
#include "team/connection.h"
#include "team/event_loop.h"
#include "team/introduction.h"

namespace farside::kv {

class Clients {
 public:
  /// Listens at `addresses` (socket.h) from construction on until `loop` is stopped, which must be before this goes.
  /// Clients are peers of `fabric` from `first_peer` on. `inbox` is that of whoever runs `errands`.
  Clients(EventLoop& loop, Fabric& fabric, MailboxInbox& inbox, Errands& errands, const Secret& secret, Welcome welcome,
          PeerId first_peer, const std::vector<std::string>& addresses);
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;
  ~Clients();

 private:
  using Number = std::uint64_t;
  using Refusal = Introduction::Refusal;

  struct Listener {
    std::string address;
    Fd socket;
  };
  /// Whoever connected: a stranger until it has a session.
  struct Client {
    std::unique_ptr<Connection> connection;
    SetupClock::time_point came;
    Introduction introduction{};
    std::optional<farside::Session> session{};
    std::optional<PeerId> peer{};  ///< once it has joined
    std::set<Number> mailboxes{};
  };
  /// What a mailbox stands on.
  struct Served {
    std::unique_ptr<Region> requests;
    std::unique_ptr<RemoteRegion> replies;
    MailboxInbox::Number mailbox = 0;
  };

  // On the loop's thread.
  void accept(const Listener& listener);
  void serve(Number number);
  Refusal advance(Client& client);
  Refusal shake_hands(Client& client);
  Refusal obey(Client& client, const std::string& message);
  void join(Client& client, const std::string& fabric);
  void open(Client& client, const OpenRequest& request);
  [[nodiscard]] bool close(Client& client, Number mailbox);
  static void say(Client& client, const std::string& message);
  void refuse(Number number, const std::string& reason);
  void part(Number number);  // which is gone then
  [[nodiscard]] PeerId take_peer();
  [[nodiscard]] std::size_t strangers() const;
  void keep_time();
  void refuse_the_slow();

  // On the serving thread.
  void begin(Number mailbox, Served served, const MailboxEnd& end, Waking waking);
  void end(Number mailbox);

  EventLoop& loop_;
  Fabric& fabric_;
  MailboxInbox& inbox_;
  Errands& errands_;
  const Secret secret_;
  const Welcome welcome_;
  std::vector<Listener> listeners_;

  // Of the loop's thread.
  std::map<Number, Client> clients_;  // by age
  Number next_client_ = 0;
  Number next_mailbox_ = 1;
  PeerId next_peer_;
  std::vector<PeerId> free_peers_;
  bool ticking_ = false;
  ThrottledLog log_;

  std::map<Number, Served> served_;  // of the serving thread
};

}  // namespace farside::kv
