// engine.h — one-sided access to other hosts through UCX: one engine a process, made when the first peer on another
// host appears (ucp_init and the service worker take about 10 ms each).
//
// Times are those of std::chrono::steady_clock. UCX reads its own settings: UCX_NET_DEVICES names the devices it
// listens on, UCX_TLS the transports (unset: all but the shared-memory ones, which leave files behind).
//
// Thread safety: every call, from any thread. A UcxChannel belongs to one thread. The engine outlives its channels,
// memories and accesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "farside/fabric/channel.h"
#include "farside/fabric/region.h"
#include "farside/fabric/time.h"

#include "fabric/ucx/channel.h"

namespace farside {

/// Memory that peers reach through UCX. The memory itself is somebody else's and must outlive this.
class UcxMemory {
 public:
  virtual ~UcxMemory() = default;
  UcxMemory(const UcxMemory&) = delete;
  UcxMemory& operator=(const UcxMemory&) = delete;

  /// What UcxEngine::attach takes; opaque, at most 512 bytes.
  [[nodiscard]] virtual std::string handle() const = 0;

 protected:
  UcxMemory() = default;
};

class UcxEngine {
 public:
  /// `on_event` is called, from any thread, after something arrived for this process or a peer was found lost: local
  /// waiters look again. It must not block and not call the engine.
  [[nodiscard]] static std::unique_ptr<UcxEngine> start(std::function<void()> on_event);

  virtual ~UcxEngine() = default;
  UcxEngine(const UcxEngine&) = delete;
  UcxEngine& operator=(const UcxEngine&) = delete;

  // Set-up. Failures throw Error.

  /// How peers reach this process; opaque, at most 2 KiB.
  [[nodiscard]] virtual std::string address() const = 0;
  /// Again for the same number: a new incarnation, whose predecessor's operations end in peer_lost.
  virtual void connect(PeerId peer, std::string_view address) = 0;
  [[nodiscard]] virtual std::unique_ptr<UcxMemory> offer(std::byte* base, std::uint64_t bytes) = 0;
  /// For RemoteRegion::access(). The peer must be connected.
  [[nodiscard]] virtual std::unique_ptr<RemoteAccess> attach(PeerId peer, std::string_view handle) = 0;
  [[nodiscard]] virtual std::unique_ptr<UcxChannel> open_channel() = 0;

  // Peers. A peer that dies is marked lost by the engine itself, within milliseconds if its host lives on.

  /// Ends every operation to `peer`, now and later, with peer_lost.
  virtual void mark_lost(PeerId peer) = 0;
  [[nodiscard]] virtual bool lost(PeerId peer) const = 0;
  /// Marks it lost and closes what it opened to this process: done when nothing it posted can land any more. What
  /// this rests on stands in docs/protocols/fabric.md.
  virtual Outcome revoke(PeerId peer, Deadline deadline) = 0;

 protected:
  UcxEngine() = default;
};

}  // namespace farside
