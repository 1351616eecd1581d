#include "far/service/pool_nodes.h"

#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "service/service_fabric.h"

namespace farside::far {

PoolNodes::PoolNodes(std::span<const std::string> entries, const net::Secret& secret,
                     net::SetupClock::time_point deadline)
    : secret_(secret) {
  Welcome welcome = service::link_to_any<NodeLink>(entries, secret_, deadline,
                                                   {"reach", "far memory", "no pool that lends any is running",
                                                    "start one with farside up --far SIZE"})
                        ->welcome();
  links_.resize(welcome.nodes.size());
  are_spread_ = welcome.hello.remote_peers;
  fabric_ = service::make_client_fabric(welcome.hello, secret_, welcome.nodes);
  addresses_.emplace(std::move(welcome.nodes));
  fabric_->connect(kSelf, fabric_->address());
}

PoolNodes::~PoolNodes() {
  loop_.stop();
  for (const Linked& each : links_) {
    if (each.link != nullptr) each.link->leave();
  }
}

bool PoolNodes::is_linked(std::uint32_t node) const {
  const MutexLock lock(mutex_);
  const Linked& linked = links_.at(node);
  return linked.link != nullptr && !fabric_->lost(linked.peer);
}

void PoolNodes::hang_up_on_lost() {
  const MutexLock lock(mutex_);
  for (const Linked& each : links_) {
    if (each.link != nullptr && !each.by_memory && fabric_->lost(each.peer)) each.link->hang_up();
  }
}

std::uint32_t PoolNodes::node_of(PeerId peer) const {
  const MutexLock lock(mutex_);
  return nodes_of_.at(peer - kSelf - 1);
}

std::unique_ptr<LentMemory> PoolNodes::link(std::uint32_t node, net::SetupClock::time_point deadline,
                                            const std::function<void()>& ended) {
  assert_that(!is_linked(node), "a node is linked once at a time");
  hang_up_on_lost();  // the node gives back what the former link held when that is gone
  auto link = connect(node, deadline);
  const MutexLock lock(mutex_);
  nodes_of_.push_back(node);
  const auto peer = static_cast<PeerId>(kSelf + nodes_of_.size());
  std::unique_ptr<LentMemory> memory;
  try {
    memory = link->join(*fabric_, peer, deadline);
  } catch (const Error&) {  // nothing is mapped: a process that went without a word would be ended by the node
    fabric_->mark_lost(peer);
    link->leave();
    throw;
  }
  links_[node] = {link, peer, fabric_->reaches_by_memory(peer)};
  NodeLink::watch(loop_, link, [this, node, peer, life = fabric_->life(peer), ended] {
    fabric_->mark_lost(peer, life);
    {
      const MutexLock gone(mutex_);
      if (links_[node].peer == peer) links_[node] = {};
    }
    ended();
  });
  return memory;
}

// If it does not answer the others are asked for its address: its machine may have been replaced.
std::shared_ptr<NodeLink> PoolNodes::connect(std::uint32_t node, net::SetupClock::time_point deadline) {
  const std::string address = addresses_->at(node);
  try {
    auto link = std::make_shared<NodeLink>(address, secret_, deadline);
    if (link->welcome().self == node && addresses_->learn(link->welcome().nodes)) return link;
  } catch (const Error&) {
    if (are_spread_) service::learn_addresses<NodeLink>(*addresses_, node, secret_, &Welcome::nodes);
    throw;
  }
  throw Error({"reach the memory of the node at", address, "it is one of another pool", "open the pool again"});
}

}  // namespace farside::far
