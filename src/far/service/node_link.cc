#include "far/service/node_link.h"

#include "farside/base/error.h"
#include "farside/base/log.h"

namespace farside::far {

namespace {

constexpr auto kLeaveLimit = std::chrono::seconds(1);

}  // namespace

NodeLink::NodeLink(const std::string& address, const Secret& secret, SetupClock::time_point deadline)
    : link_({"reach the memory of the node at", address}, secret, kLinkBodyLimit, deadline),
      welcome_(decode_welcome(receive(LinkKind::welcome, deadline))) {
  welcome_.greeting.expect_compatible(link_.what());
}

std::unique_ptr<LentMemory> NodeLink::join(Fabric& fabric, PeerId as, SetupClock::time_point deadline) {
  fabric.connect(as, welcome_.greeting.fabric);
  link_.send(encode_join(fabric.address()), deadline);
  const Holder holder = decode_joined(receive(LinkKind::joined, deadline));
  return std::make_unique<LentMemory>(fabric, fabric.attach(as, welcome_.table), fabric.attach(as, welcome_.memory),
                                      holder);
}

void NodeLink::watch(EventLoop& loop, const std::shared_ptr<NodeLink>& link, const std::function<void()>& ended) {
  link->link_.watch(loop, [link, ended] { ended(); });
}

void NodeLink::leave() noexcept {
  try {
    link_.send(encode_leave(), SetupClock::now() + kLeaveLimit);
  } catch (const std::exception& error) {  // it is gone already
    log::debug(error.what());
  }
}

std::string NodeLink::receive(LinkKind wanted, SetupClock::time_point deadline) {
  std::string message = link_.receive(deadline);
  const LinkKind kind = kind_of(message);
  if (kind == wanted) return message;
  throw Error({link_.what().tried, link_.what().address,
               kind == LinkKind::refused ? decode_text(message) : "it answers something else", "see farside status"});
}

}  // namespace farside::far
