// lender_service.h — a node that lends memory, as a process runs it: the memory, and the clients that come for it. A
// client's slabs are its own as long as its socket is open.
//
// Sockets are the business of a thread that sleeps; the table of slabs that of the one that serves, which is told by
// tasks.
//
// Thread safety: wake from any thread; the rest is for one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "farside/fabric/fabric.h"

#include "base/task_queue.h"
#include "base/throttled_log.h"
#include "far/protocol/lender.h"
#include "far/service/link_messages.h"
#include "service/addresses.h"
#include "service/peer_numbers.h"
#include "service/service_clients.h"
#include "service/service_fabric.h"

namespace farside::far {

struct LenderOptions {
  std::uint32_t self = 0;
  service::AddressesNow nodes;      ///< where each is reached (socket.h), by number
  std::vector<std::string> listen;  ///< where this one is
  bool remote_peers = false;        ///< some clients are on other hosts
  std::uint64_t bytes = 0;          ///< that it lends, at most
};

/// Memory of the machine that is there when it is wanted, and goes back when it is not.
class MachineMemory final : public Backing {
 public:
  MachineMemory(const Region& memory, std::uint64_t slab_bytes) : memory_(memory), slab_bytes_(slab_bytes) {}

  [[nodiscard]] bool provide(SlabNumber slab) override;
  void take_back(SlabNumber slab) override;

 private:
  const Region& memory_;
  const std::uint64_t slab_bytes_;
};

class LenderService final : private service::ServiceClients::Handler {
 public:
  /// Clients may come from now on. Throws Error when it cannot listen, or has not the memory.
  LenderService(const LenderOptions& options, const net::Secret& pool);
  ~LenderService() override;

  /// Serves until `ended`, which is asked now and then, and after a wake.
  void serve_until(const std::function<bool()>& ended);
  void wake() { bell_.ring(); }

 private:
  struct Client {
    PeerId peer;
    Holder holder;
  };
  struct Parted {
    Client client;
    Parting how;
  };

  // On the loop's thread.
  [[nodiscard]] std::string welcome() override;
  [[nodiscard]] std::string refusal(const std::string& reason) const override { return encode_refused(reason); }
  [[nodiscard]] service::ServiceClients::Refusal handle(service::ServiceClients::Number number,
                                                        const std::string& message) override;
  void part(service::ServiceClients::Number number) override;
  void join(service::ServiceClients::Number number, const std::string& fabric);

  // On the serving thread.
  void begin(service::ServiceClients::Number number, PeerId peer);
  void end_parted_clients();

  const LenderOptions options_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Region> memory_;
  std::unique_ptr<Region> table_;
  service::OwnBell bell_;
  std::unique_ptr<Channel> channel_;  ///< of the thread that serves
  MachineMemory backing_;
  Lender lender_;
  TaskQueue tasks_;

  // Used by the loop's thread.
  std::map<service::ServiceClients::Number, PeerId> joined_;
  std::set<service::ServiceClients::Number> left_;  ///< the clients that said so
  service::PeerNumbers peers_;
  ThrottledLog log_;

  // Used by the serving thread.
  std::map<service::ServiceClients::Number, Client> clients_;
  std::vector<Parted> parted_;  ///< whose slabs are still to come back

  net::EventLoop loop_;
  service::ServiceClients connected_;  // last: they may come from its construction on
};

}  // namespace farside::far
