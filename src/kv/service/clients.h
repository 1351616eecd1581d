// clients.h — the clients of a server: who may come, how each is reached, and the mailboxes it asked for. A client
// lives as long as its socket is open; when it goes, so does everything that was made for it.
//
// Sockets are the business of a thread that sleeps; mailboxes that of the one that serves, which is told by errands.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "farside/fabric/fabric.h"

#include "base/throttled_log.h"
#include "kv/protocol/mailbox_inbox.h"
#include "kv/service/errands.h"
#include "kv/service/link_messages.h"
#include "team/event_loop.h"
#include "team/guests.h"

namespace farside::kv {

class Clients final : private Guests::Host {
 public:
  /// Listens at `addresses` (socket.h) from construction on until `loop` is stopped, which must be before this goes.
  /// Clients are peers of `fabric` from `first_peer` on. `inbox` is that of whoever runs `errands`.
  Clients(EventLoop& loop, Fabric& fabric, MailboxInbox& inbox, Errands& errands, const Secret& secret, Welcome welcome,
          PeerId first_peer, const std::vector<std::string>& addresses);

 private:
  using Number = std::uint64_t;

  /// A guest that has joined.
  struct Client {
    PeerId peer;
    std::set<Number> mailboxes{};
  };
  /// What a mailbox stands on.
  struct Served {
    std::unique_ptr<Region> requests;
    std::unique_ptr<RemoteRegion> replies;
    MailboxInbox::Number mailbox = 0;
  };

  // On the loop's thread.
  [[nodiscard]] std::string welcome() override { return welcome_.encode(); }
  [[nodiscard]] std::string refusal(const std::string& reason) const override { return encode_refused(reason); }
  [[nodiscard]] Guests::Refusal obey(Guests::Number guest, const std::string& message) override;
  void part(Guests::Number guest) override;
  void join(Guests::Number guest, const std::string& fabric);
  void open(Guests::Number guest, Client& client, const OpenRequest& request);
  [[nodiscard]] bool close(Client& client, Number mailbox);
  [[nodiscard]] PeerId take_peer();

  // On the serving thread.
  void begin(Number mailbox, Served served, const MailboxEnd& end, Waking waking);
  void end(Number mailbox);

  EventLoop& loop_;
  Fabric& fabric_;
  MailboxInbox& inbox_;
  Errands& errands_;
  const Welcome welcome_;

  // Of the loop's thread.
  std::map<Guests::Number, Client> clients_;
  Number next_mailbox_ = 1;
  PeerId next_peer_;
  std::vector<PeerId> free_peers_;
  ThrottledLog log_;

  std::map<Number, Served> served_;  // of the serving thread

  Guests guests_;  // last: they may come from its construction on
};

}  // namespace farside::kv
