#include "far/service/node_link.h"

namespace farside::far {

NodeLink::NodeLink(const std::string& address, const net::Secret& secret, net::SetupClock::time_point deadline)
    : link_({"reach the memory of the node at", address}, secret, deadline),
      welcome_(decode_welcome(link_.receive(kLinkMessages, LinkKind::welcome, deadline))) {
  welcome_.hello.expect_compatible(link_.what());
}

std::unique_ptr<LentMemory> NodeLink::join(Fabric& fabric, PeerId as, net::SetupClock::time_point deadline) {
  fabric.connect(as, welcome_.hello.fabric);
  link_.send(encode_join(fabric.address()), deadline);
  const Holder holder = kLinkMessages.number_of<Holder>(link_.receive(kLinkMessages, LinkKind::joined, deadline));
  return std::make_unique<LentMemory>(fabric, fabric.attach(as, welcome_.table), fabric.attach(as, welcome_.memory),
                                      holder);
}

void NodeLink::watch(net::EventLoop& loop, const std::shared_ptr<NodeLink>& link, const std::function<void()>& ended) {
  link->link_.watch(loop, [link, ended] { ended(); });
}

void NodeLink::leave() noexcept { link_.try_to_send(encode_leave()); }

}  // namespace farside::far
