// fabric.h — a process's place on the network: the regions it offers, the peers it reaches, and its sense of time.
//
// Two kinds: the host fabric (make_host_fabric: direct shared memory between processes of one host, UCX otherwise,
// chosen for each peer) and the simulated one. Protocol code is written against this interface alone and takes time,
// randomness and waiting from it.
//
// Thread safety: every call, from any thread. A Channel belongs to one thread. Regions, RemoteRegions and Channels go
// before the Fabric that made them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "farside/fabric/channel.h"
#include "farside/fabric/region.h"
#include "farside/fabric/time.h"

namespace farside {

/// Which connection of a peer number is meant: each connect begins a greater one. 0 before the first.
using PeerLife = std::uint32_t;

class Fabric {
 public:
  virtual ~Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // Set-up. Failures throw Error.

  /// Zeroed memory of `bytes` (at least 1) that peers may be told of. `name` appears in errors.
  [[nodiscard]] virtual std::unique_ptr<Region> create_region(std::string name, std::uint64_t bytes) = 0;
  /// How others reach this process; opaque, at most 4 KiB. Exchange it before connect.
  [[nodiscard]] virtual std::string address() = 0;
  /// Makes `peer` reachable. Connecting to one's own address gives the loopback. A peer number that was revoked may
  /// be connected again (a new incarnation).
  virtual void connect(PeerId peer, std::string_view address) = 0;
  /// `handle` as Region::handle gave it at `peer`.
  [[nodiscard]] virtual std::unique_ptr<RemoteRegion> attach(PeerId peer, std::string_view handle) = 0;
  [[nodiscard]] virtual std::unique_ptr<Channel> open_channel() = 0;

  // Peers.

  /// The connection that `peer` has, or had last.
  [[nodiscard]] virtual PeerLife life(PeerId peer) const = 0;
  /// Ends every wait on that life of `peer`, now and later, with peer_lost. Called when its death is learned. Does
  /// nothing once the number is connected again, so that a late detector does not hit the successor.
  virtual void mark_lost(PeerId peer, PeerLife life) = 0;
  /// The same for its present life: for a caller that alone connects the number.
  void mark_lost(PeerId peer) { mark_lost(peer, life(peer)); }
  [[nodiscard]] virtual bool lost(PeerId peer) const = 0;
  /// Operations to `peer` are accesses to mapped memory, finished when they were posted: there is nothing to wait for.
  [[nodiscard]] virtual bool reaches_by_memory(PeerId peer) const = 0;
  /// Takes the access of `peer` to this process's regions away, for good: endpoints closed, a process on the same host
  /// (which cannot be unmapped) killed and its death awaited. Memory it could reach may be reused afterwards. If that
  /// life is over since the number was connected again, revokes nothing and returns `done`: the caller that connected
  /// it had to revoke the former life first. On timed_out the peer may live and have its access.
  virtual Outcome revoke(PeerId peer, PeerLife life, Deadline deadline) = 0;
  /// The same for its present life.
  Outcome revoke(PeerId peer, Deadline deadline) { return revoke(peer, life(peer), deadline); }

  // Time, sleep and randomness for protocol code.

  [[nodiscard]] virtual Time now() const = 0;
  /// Returns what `now` was at most some milliseconds ago, where that costs less.
  [[nodiscard]] virtual Time lately() const { return now(); }
  virtual void sleep(Duration duration) = 0;
  [[nodiscard]] virtual std::uint64_t random() = 0;

  /// Reading the clock takes longer than a word from mapped memory, so of a long time some milliseconds may be missing.
  [[nodiscard]] Deadline in(Duration duration) const { return {(duration < kLong ? now() : lately()) + duration}; }

 protected:
  Fabric() = default;

 private:
  static constexpr Duration kLong = std::chrono::seconds(10);
};

/// Which of the host fabric's two ways is used to a peer.
enum class FabricMode {
  automatic,  ///< direct within a host, ucx between hosts
  direct,     ///< direct only; connecting to another host throws
  ucx,        ///< ucx to every process, itself included
};

/// Reads FARSIDE_FABRIC=direct|ucx; automatic when it is unset. Throws UsageError on anything else.
[[nodiscard]] FabricMode fabric_mode_from_environment();

struct HostFabricOptions {
  FabricMode mode = FabricMode::automatic;
  /// Peers on other hosts may come: UCX is started, and addresses and handles carry what they need. Without it (and
  /// without FabricMode::ucx) the process opens no UCX worker and no network port.
  bool remote_peers = false;
  /// About how many processes will be connected through UCX, where that is known: a large number lets UCX choose
  /// transports whose state does not grow with it. 0: unknown.
  std::uint32_t expected_peers = 0;
  /// A text that all processes that will be peers know, and no other one: links through UCX from a process with another
  /// secret are not answered. Empty: any process that reaches the port is answered.
  std::string secret{};
  /// An address of this host, as numbers: UCX uses the interface that has it, and RDMA NICs. Empty: every interface.
  /// UCX_NET_DEVICES has precedence; "all" in it is every interface.
  std::string network{};
  /// Warn in the log when UCX listens over TCP on every interface because neither `network` nor UCX_NET_DEVICES limits
  /// it. The warning of one process of a host is enough.
  bool warn_of_all_interfaces = true;
};

[[nodiscard]] std::unique_ptr<Fabric> make_host_fabric(HostFabricOptions options);

/// Names the host as the host fabric sees it: equal in two processes exactly when direct works between them.
[[nodiscard]] std::string host_identity();

}  // namespace farside
