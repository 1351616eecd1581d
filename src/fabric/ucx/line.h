// line.h — an endpoint of a UCX engine's service worker. It stands alone: lines.cc, which uses it, is a part of the
// engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "fabric/ucx/engine.h"

namespace farside {

/// A lifeline, which we opened to the service worker of a peer and whose failure is the peer's end, or a guest, which a
/// channel of a peer opened to us.
struct UcxEngine::Line {
  Line(UcxEngine& owner, std::shared_ptr<UcxPeer> lifeline)
      : engine(owner), identity(lifeline->identity), lifeline_of(std::move(lifeline)) {}
  Line(UcxEngine& owner, const UcxHello& hello)
      : engine(owner), identity(hello.identity), channel(hello.channel), worker(hello.worker), answer{hello.link, 0} {}

  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() NO_THREAD_SAFETY_ANALYSIS { engine.target_.forget(endpoint.get()); }  // under the mutex, or in its destructor

  [[nodiscard]] bool is_guest_of(const UcxHello& hello) const {
    return lifeline_of == nullptr && identity == hello.identity && channel == hello.channel;
  }

  UcxEngine& engine;
  const UcxIdentity identity;
  const std::shared_ptr<UcxPeer> lifeline_of;  // null for a guest
  const std::uint64_t channel = 0;             // of the peer, that a guest is from
  const std::string worker;                    // of that channel: its address
  UcxAnswer answer{};                          // to the guest; lives while it is under way
  UcxEndpoint endpoint;
  bool failed = false;
};

}  // namespace farside
