// node_link.h — a process's link to a node that lends memory.
//
// Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "farside/fabric/fabric.h"

#include "far/protocol/lent_memory.h"
#include "far/service/link_messages.h"
#include "service/service_link.h"

namespace farside::far {

class NodeLink {
 public:
  /// Connects and shakes hands. Throws Error when no node answers at `address`, or not with this secret.
  NodeLink(const std::string& address, const net::Secret& secret, net::SetupClock::time_point deadline);

  [[nodiscard]] const Welcome& welcome() const noexcept { return welcome_; }
  /// Makes the node peer `as` of `fabric`, which outlives its memory. Throws Error.
  [[nodiscard]] std::unique_ptr<LentMemory> join(Fabric& fabric, PeerId as, net::SetupClock::time_point deadline);
  /// Has `loop` keep it, and call `ended` when the node is gone.
  static void watch(net::EventLoop& loop, const std::shared_ptr<NodeLink>& link, const std::function<void()>& ended);
  /// The memory is not mapped any more.
  void leave() noexcept;
  /// Ends the link to a node that was given up, without a word: when it continues, it takes this process's access away
  /// before it lends the memory again. Not for a node that is reached by memory, which would end this process.
  void hang_up() noexcept { link_.hang_up(); }

 private:
  service::ServiceLink link_;
  Welcome welcome_;
};

}  // namespace farside::far
