// pool_nodes.h — the nodes of a pool that lend memory, as a process reaches them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "far/service/node_link.h"
#include "service/addresses.h"

namespace farside::far {

/// Thread safety: every call, from any thread.
class PoolNodes {
 public:
  /// `entries`: where nodes may be reached; one that answers names the others. Throws Error when none does.
  PoolNodes(std::span<const std::string> entries, const net::Secret& secret, net::SetupClock::time_point deadline);
  /// Nothing of theirs is mapped any more.
  ~PoolNodes();
  PoolNodes(const PoolNodes&) = delete;
  PoolNodes& operator=(const PoolNodes&) = delete;

  static constexpr PeerId kSelf = 0;  ///< the loopback

  [[nodiscard]] Fabric& fabric() noexcept { return *fabric_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(addresses_->size()); }
  /// They are on several machines.
  [[nodiscard]] bool are_spread() const noexcept { return are_spread_; }
  /// Not when it is lost, by whatever showed that.
  [[nodiscard]] bool is_linked(std::uint32_t node) const;
  /// Ends the links to nodes that are lost and may live: they hold memory for this process as long as it is linked.
  void hang_up_on_lost();
  /// The number of the node that was linked as `peer`.
  [[nodiscard]] std::uint32_t node_of(PeerId peer) const;
  /// The memory of a node that is not linked. `ended` is called, soon, when the node is gone, which counts as lost by
  /// then. Throws Error when it does not answer; another attempt may find it at another address.
  [[nodiscard]] std::unique_ptr<LentMemory> link(std::uint32_t node, net::SetupClock::time_point deadline,
                                                 const std::function<void()>& ended);

 private:
  struct Linked {
    std::shared_ptr<NodeLink> link;  ///< null: there is none
    PeerId peer = kSelf;
    bool by_memory = false;
  };

  [[nodiscard]] std::shared_ptr<NodeLink> connect(std::uint32_t node, net::SetupClock::time_point deadline);

  const net::Secret secret_;
  std::unique_ptr<Fabric> fabric_;
  std::optional<service::KnownAddresses> addresses_;  ///< since one has answered
  bool are_spread_ = false;
  net::EventLoop loop_;
  mutable Mutex mutex_;
  std::vector<Linked> links_ GUARDED_BY(mutex_);            ///< by number
  std::vector<std::uint32_t> nodes_of_ GUARDED_BY(mutex_);  ///< by peer, from kSelf + 1 on
};

}  // namespace farside::far
