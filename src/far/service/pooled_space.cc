#include "far/service/pooled_space.h"

#include <algorithm>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/base/units.h"

#include "far/time_limits.h"

namespace farside::far {

PooledSpace::PooledSpace(std::unique_ptr<PoolNodes> nodes, std::uint64_t bytes, std::uint32_t copies, bool has_file,
                         net::SetupClock::time_point deadline)
    : has_file_(has_file), nodes_(std::move(nodes)) {
  std::optional<Error> failed;
  for (std::uint32_t node = 0; node < nodes_->size(); ++node) {
    try {
      auto memory = link(node, net::share_of(deadline, nodes_->size() - node));
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
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
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

Unresponsive PooledSpace::unresponsive() const {
  const SlabMap& slabs = space_->slabs();
  return {.has = [&slabs](std::uint64_t slab) { return slabs.is_out_of_reach(slab); },
          .may_have_room = [&slabs](std::uint64_t slab) { return slabs.may_wait_for_room(slab); }};
}

void PooledSpace::Alarm::ring() {
  const MutexLock lock(mutex);
  rung = true;
  changed.notify_all();
}

std::unique_ptr<LentMemory> PooledSpace::link(std::uint32_t node, net::SetupClock::time_point deadline) {
  return nodes_->link(node, deadline, [alarm = alarm_] { alarm->ring(); });
}

bool PooledSpace::link_new_nodes(Tries& tries) {
  bool any = false;
  for (std::uint32_t node = 0; node < nodes_->size(); ++node) {
    const auto begin = net::SetupClock::now();
    if (nodes_->is_linked(node) || begin < tries[node]) continue;
    try {
      space_->slabs().add(link(node, begin + time_limits::kLink));
      any = true;
      log::info("node " + std::to_string(node) + " lends memory again");
    } catch (const Error& error) {
      log::debug(error.what());
    }
    const auto end = net::SetupClock::now();
    tries[node] =
        end + (end - begin < time_limits::kLink / 2 ? time_limits::kBetweenLinks : time_limits::kBetweenSlowLinks);
  }
  return any;
}

void PooledSpace::tend(const std::stop_token& stop) {
  Tries tries;
  CopyCounts told;
  net::SetupClock::duration pause = time_limits::kBetweenLinks;
  while (!stop.stop_requested()) {
    {
      MutexLock lock(alarm_->mutex);
      // Losses show in a reader's own operations as well, and a reader rings nothing.
      (void)alarm_->changed.wait_for(lock, stop, pause, [this]() REQUIRES(alarm_->mutex) { return alarm_->rung; });
      if (std::exchange(alarm_->rung, false)) pause = time_limits::kFirstRepairPause;
    }
    if (stop.stop_requested()) break;
    nodes_->hang_up_on_lost();
    tell_losses();
    tell_copies(told);
    const CopyCounts before = told;
    const bool repaired = space_->slabs().repair(fabric().in(time_limits::kRepairRound));
    tell_copies(told);
    const bool any_came = link_new_nodes(tries);
    // A slab that could not be copied was in use, or finds no room. Longer pauses while that stays so.
    pause = told.single == 0 || repaired ? time_limits::kBetweenLinks
                                         : std::min<net::SetupClock::duration>(2 * pause, time_limits::kBetweenLinks);
    if (told.single != 0 && (any_came || told.single < before.single)) pause = time_limits::kFirstRepairPause;
  }
  tell_losses();  // a program may have ended by one before this thread woke
}

// ---- What the user is told

// Node by node. With mirrors the node that is named is one of the two that had a copy.
void PooledSpace::tell_losses() const {
  std::map<std::uint32_t, std::vector<Loss>> by_node;
  for (const Loss& loss : space_->slabs().take_losses()) by_node[nodes_->node_of(loss.node)].push_back(loss);
  if (has_file_) return;
  for (const auto& [node, losses] : by_node) {
    log::warn("far memory: every copy of " + format_bytes(losses.size() * slab_bytes()) + " is lost with node " +
              std::to_string(node) + ", the first at offset " + std::to_string(losses.front().offset) +
              ": to read them is an error until they are written anew");
  }
}

void PooledSpace::tell_copies(CopyCounts& told) {
  const SpaceShape& shape = space_->slabs().shape();
  if (shape.copies == 1) return;
  const CopyCounts now = space_->slabs().count_copies();
  const auto size = [&shape](std::uint64_t slabs) { return format_bytes(slabs * shape.slab_bytes); };
  if (now.single != 0 && told.single == 0) {
    fell_to_one_copy_.add();
    log::warn("far memory: " + size(now.single) + " of " + size(now.single + now.whole) +
              " have a single copy until they are copied to another node");
  }
  if (now.single == 0 && told.single != 0 && now.lost == 0) {
    mirrored_again_.add();
    log::warn("far memory: all of it is mirrored again");
  }
  told = now;
}

void PooledSpace::watch(const std::stop_token& stop) {
  LenderWatch watch(space_->slabs());
  while (!stop.stop_requested()) {
    for (const LenderWatch::Event& event : watch.look()) tell(event);
    MutexLock lock(alarm_->mutex);
    (void)alarm_->changed.wait_for(lock, stop, time_limits::kBetweenLooks, [] { return false; });
  }
}

void PooledSpace::tell(const LenderWatch::Event& event) const {
  const std::string node = "far memory: node " + std::to_string(nodes_->node_of(event.peer));
  switch (event.news) {
    case LenderWatch::News::unresponsive:
      log::warn(node + (has_file_ ? " does not answer: until it does, its data is in the spill file"
                                  : " does not answer: what needs its data waits, a program for a minute at most; new "
                                    "data goes to other nodes that have room"));
      break;
    case LenderWatch::News::given_up:
      log::warn(node + " does not answer, and is treated as lost; " +
                (space_->slabs().shape().copies > 1 ? "its data is copied from the other nodes" : "it has no data"));
      alarm_->ring();
      break;
    case LenderWatch::News::waited_for:
      log::warn(node + " does not answer, and has the only copy within reach of some data: that is waited for");
      break;
    case LenderWatch::News::answers_again: log::warn(node + " answers again"); break;
  }
}

}  // namespace farside::far
