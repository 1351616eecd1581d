// ucx_node.h — a UCX engine by itself in each process of a fleet, over TCP on the loopback device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <sys/types.h>

#include "fabric/clock.h"
#include "fabric/ucx/engine.h"
#include "tests/support/fleet.h"
#include "tests/support/mesh.h"
#include "tests/support/shared.h"

namespace farside::test {

using namespace std::chrono_literals;
using Kind = Operation::Kind;

inline Deadline in(Duration duration) { return {monotonic_now() + duration}; }
inline Deadline default_deadline() { return in(kTimeout); }

/// One process's engine, connected to every member, with memory at each.
struct Node {
  explicit Node(std::uint64_t bytes, const HostFabricOptions& options = {});

  /// Collective.
  void meet(Member& me);

  /// One operation at `peer`, awaited. `offset` and `bytes` as for the region.
  Outcome run(Kind kind, PeerId peer, std::uint64_t offset, void* local, std::uint64_t bytes, Deadline deadline,
              std::uint64_t operand = 0, std::uint64_t expected = 0);
  Outcome read(PeerId peer, std::uint64_t offset, void* into, std::uint64_t bytes,
               Deadline deadline = default_deadline()) {
    return run(Kind::read, peer, offset, into, bytes, deadline);
  }
  Outcome write(PeerId peer, std::uint64_t offset, void* from, std::uint64_t bytes,
                Deadline deadline = default_deadline()) {
    return run(Kind::write, peer, offset, from, bytes, deadline);
  }

  std::atomic<int> events = 0;
  std::vector<std::uint64_t> words;  ///< what this process offers
  std::unique_ptr<UcxEngine> engine;
  std::unique_ptr<UcxMemory> memory;
  std::unique_ptr<UcxChannel> channel;
  std::vector<std::unique_ptr<RemoteRegion>> remotes;
};

/// A word of an own region as its owner sees it while others change it.
inline std::uint64_t look(std::uint64_t& word) { return std::atomic_ref(word).load(); }

/// Stops a process and waits until each of its threads stands.
void stop(pid_t process);

}  // namespace farside::test
