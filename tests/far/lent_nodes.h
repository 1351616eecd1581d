// lent_nodes.h — nodes that lend memory, within the test's own process: each with a thread that keeps its slabs.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "farside/fabric/fabric.h"

#include "far/protocol/lender.h"
#include "far/protocol/striped_space.h"

namespace farside::far {

class LentNode final : private Backing {
 public:
  /// Peer `number` of `fabric` is this process itself.
  LentNode(Fabric& fabric, PeerId number, const LenderSettings& settings)
      : fabric_(fabric),
        number_(number),
        slab_bytes_(settings.slab_bytes),
        table_(fabric.create_region("table", table_bytes(settings.slabs))),
        memory_(fabric.create_region("memory", settings.slabs * settings.slab_bytes)),
        keeper_([this, settings](const std::stop_token& stop) { keep(stop, settings); }) {
    while (table_->word<ControlWord>(offsetof(TableHead, magic)).load() == 0) std::this_thread::yield();
  }

  /// A new client's view of it.
  [[nodiscard]] std::unique_ptr<LentMemory> join() {
    return std::make_unique<LentMemory>(fabric_, fabric_.attach(number_, table_->handle()),
                                        fabric_.attach(number_, memory_->handle()), ++holders_);
  }

 private:
  static constexpr PeerId kLoopback = 100;  // that is never lost

  void keep(const std::stop_token& stop, const LenderSettings& settings) {
    const auto channel = fabric_.open_channel();
    Lender lender(fabric_, *channel, *table_, kLoopback, *this, settings);
    while (!stop.stop_requested()) {
      if (!lender.step()) lender.rest(fabric_.in(std::chrono::milliseconds(20)));
    }
  }
  bool provide(SlabNumber /*slab*/) override { return true; }
  void take_back(SlabNumber slab) override {
    const std::vector<std::byte> zeros(slab_bytes_);
    memory_->copy_in(slab * slab_bytes_, zeros);
  }

  Fabric& fabric_;
  const PeerId number_;
  const std::uint64_t slab_bytes_;
  Holder holders_ = 0;
  std::unique_ptr<Region> table_;
  std::unique_ptr<Region> memory_;
  std::jthread keeper_;
};

/// A fabric whose peers 0, 1, ... and 100 are the process itself.
inline std::unique_ptr<Fabric> make_lonely_fabric(PeerId nodes) {
  auto fabric = make_host_fabric({});
  for (PeerId node = 0; node < nodes; ++node) fabric->connect(node, fabric->address());
  fabric->connect(100, fabric->address());
  return fabric;
}

}  // namespace farside::far
