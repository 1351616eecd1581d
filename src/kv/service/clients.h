// clients.h — the clients of a server: which may come, how each is reached, and the mailboxes it asked for. A client
// lives as long as its socket is open; when it goes, so does everything that was made for it.
//
// Sockets are the business of a thread that sleeps; mailboxes that of the one that serves, which is told by tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "farside/fabric/fabric.h"

#include "base/task_queue.h"
#include "base/throttled_log.h"
#include "kv/mailbox/mailbox_inbox.h"
#include "kv/replication/epoch_words.h"
#include "kv/service/link_messages.h"
#include "net/event_loop.h"
#include "service/addresses.h"
#include "service/peer_numbers.h"
#include "service/service_clients.h"

namespace farside::kv {

/// The state that a standby has beside that of a server.
struct StandbySide {
  const Region& ring;  ///< for its primary
  EpochWords& words;   ///< of the serving thread, as are
  std::function<std::uint64_t()> epoch;
  enum class PrimaryIs : std::uint8_t { shipping, leaving, gone };  ///< gone: its socket is closed
  struct Primary {
    PeerId peer;  ///< never another's
    std::uint16_t incarnation;
  };
  std::function<void(Primary, PrimaryIs)> note_primary;
};

class Clients final : private service::ServiceClients::Handler {
 public:
  /// Listens at `addresses` (socket.h) from construction on until `loop` is stopped, which must be before this goes.
  /// Clients are peers of `fabric` from `first_peer` on. `inbox` is that of the thread that runs `tasks`.
  Clients(net::EventLoop& loop, Fabric& fabric, MailboxInbox& inbox, TaskQueue& tasks, const net::Secret& secret,
          Welcome welcome, service::AddressesNow servers, service::AddressesNow standbys, PeerId first_peer,
          const std::vector<std::string>& addresses, const StandbySide* standby = nullptr);

 private:
  using Number = std::uint64_t;

  /// A client that has joined.
  struct Client {
    PeerId peer;
    PeerLife life;
    std::set<Number> mailboxes{};
    std::optional<std::uint16_t> is_primary{};  ///< that ships its changes to this standby: of that incarnation
  };
  /// The memory and the number of a mailbox.
  struct Served {
    std::unique_ptr<Region> requests;
    std::unique_ptr<RemoteRegion> replies;
    MailboxInbox::Number mailbox = 0;
  };

  // On the loop's thread.
  [[nodiscard]] std::string welcome() override;
  [[nodiscard]] std::string refusal(const std::string& reason) const override { return encode_refused(reason); }
  [[nodiscard]] service::ServiceClients::Refusal handle(service::ServiceClients::Number number,
                                                        const std::string& message) override;
  void part(service::ServiceClients::Number number) override;
  void join(service::ServiceClients::Number number, const Join& join);
  void join_standby(service::ServiceClients::Number number, PeerId peer, const std::string& told);
  [[nodiscard]] service::ServiceClients::Refusal ship(service::ServiceClients::Number number, Client& client,
                                                      std::uint16_t incarnation);
  void note_primary(const Client& client, StandbySide::PrimaryIs what);
  void open(service::ServiceClients::Number number, Client& client, const OpenRequest& request);
  [[nodiscard]] bool close(Client& client, Number mailbox);

  // On the serving thread.
  void begin(Number mailbox, Served served, const MailboxEnd& end, Waking waking);
  void end(Number mailbox);

  net::EventLoop& loop_;
  Fabric& fabric_;
  MailboxInbox& inbox_;
  TaskQueue& tasks_;
  const Welcome welcome_;  ///< but for where servers are reached
  const service::AddressesNow servers_;
  const service::AddressesNow standbys_;  ///< none: there are none
  const StandbySide* const standby_;

  // For the loop's thread.
  std::map<service::ServiceClients::Number, Client> clients_;
  Number next_mailbox_ = 1;
  service::PeerNumbers peers_;
  bool has_primary_ = false;
  ThrottledLog log_;

  // For the serving thread.
  std::map<Number, Served> served_;
  std::map<service::ServiceClients::Number, std::unique_ptr<RemoteRegion>> told_;

  service::ServiceClients connected_;  // last: they may come from its construction on
};

}  // namespace farside::kv
