#include "far/service/pooled_space.h"

#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

namespace farside::far {

namespace {

constexpr auto kLinkLimit = std::chrono::seconds(2);
constexpr auto kLook = std::chrono::seconds(2);
constexpr Duration kMendLimit = std::chrono::seconds(2);  // after which the nodes are looked at again

}  // namespace

PooledSpace::PooledSpace(std::unique_ptr<PoolNodes> nodes, std::uint64_t bytes, std::uint32_t copies,
                         SetupClock::time_point deadline)
    : nodes_(std::move(nodes)) {
  std::optional<Error> failed;
  for (std::uint32_t node = 0; node < nodes_->size(); ++node) {
    try {
      auto memory = link(node, deadline);
      if (space_ == nullptr) {
        const SpaceShape shape{.bytes = bytes, .slab_bytes = memory->slab_bytes(), .copies = copies};
        space_ = std::make_unique<StripedSpace>(nodes_->fabric(), PoolNodes::kSelf, shape);
      }
      space_->slabs().add(std::move(memory));
    } catch (const Error& error) {  // it may come back
      log::warn(error.what());
      failed = error;
    }
  }
  if (space_ == nullptr) throw Error(*failed);
  tender_ = std::jthread([this](const std::stop_token& stop) { tend(stop); });
}

PooledSpace::~PooledSpace() = default;

std::uint64_t PooledSpace::room_bytes(Deadline deadline) {
  const auto channel = fabric().open_channel();
  std::vector<std::uint64_t> free_slabs;
  for (const LentMemory* node : space_->slabs().living()) {
    if (const auto use = node->use(*channel, deadline)) free_slabs.push_back(use->slabs() - use->taken);
  }
  const SpaceShape& shape = space_->slabs().shape();
  return room_for(free_slabs, shape.copies) * shape.slab_bytes;
}

std::unique_ptr<LentMemory> PooledSpace::link(std::uint32_t node, SetupClock::time_point deadline) {
  return nodes_->link(node, deadline, [alarm = alarm_] {
    const MutexLock lock(alarm->mutex);
    alarm->rung = true;
    alarm->changed.notify_all();
  });
}

void PooledSpace::take_in_who_came() {
  for (std::uint32_t node = 0; node < nodes_->size(); ++node) {
    if (nodes_->is_linked(node)) continue;
    try {
      space_->slabs().add(link(node, SetupClock::now() + kLinkLimit));
      log::info("node " + std::to_string(node) + " lends memory again");
    } catch (const Error& error) {
      log::debug(error.what());
    }
  }
}

void PooledSpace::tend(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      MutexLock lock(alarm_->mutex);
      // Losses show in a reader's own operations as well, who rings nothing.
      (void)alarm_->changed.wait_for(lock, stop, kLook, [this]() REQUIRES(alarm_->mutex) { return alarm_->rung; });
      alarm_->rung = false;
    }
    if (stop.stop_requested()) return;
    (void)space_->slabs().mend(fabric().in(kMendLimit));
    take_in_who_came();
  }
}

}  // namespace farside::far
