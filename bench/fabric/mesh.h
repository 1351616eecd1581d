// mesh.h — a farside fabric between the two processes of a pair, with a region at the target.
#pragma once

#include <chrono>
#include <memory>

#include "farside/fabric/fabric.h"

#include "bench/fabric/pair.h"
#include "bench/fabric/work.h"

namespace farside::bench {

inline constexpr Duration kTimeout = std::chrono::seconds(30);

struct Mesh {
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Region> local;
  std::unique_ptr<RemoteRegion> remote;
  std::unique_ptr<Channel> channel;
};

/// Collective. FARSIDE_FABRIC chooses the fabric. Both are each other's peer 1.
inline Mesh connect_pair(const Line& line) {
  Mesh mesh;
  mesh.fabric = make_host_fabric({.mode = fabric_mode_from_environment(), .remote_peers = false});
  mesh.local = mesh.fabric->create_region("bench", kRegionBytes);
  mesh.fabric->connect(1, line.exchange(mesh.fabric->address()));
  mesh.remote = mesh.fabric->attach(1, line.exchange(mesh.local->handle()));
  mesh.channel = mesh.fabric->open_channel();
  return mesh;
}

/// The measurement is worth nothing when an operation fails.
inline void check(Outcome outcome) {
  if (outcome != Outcome::done) throw std::runtime_error("an operation ended with " + std::string(to_string(outcome)));
}

}  // namespace farside::bench
