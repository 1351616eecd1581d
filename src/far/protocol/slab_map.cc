#include "far/protocol/slab_map.h"

#include <algorithm>

#include "farside/base/error.h"
#include "farside/base/units.h"

namespace farside::far {

namespace {

constexpr Duration kFirstPause = std::chrono::microseconds(50);
constexpr Duration kLongestPause = std::chrono::milliseconds(2);
constexpr std::uint64_t kCopiedAtOnce = 256U << 10U;

// Whoever reads or writes waits meanwhile: so long for a slab to come to rest, and so long until it is mended.
constexpr Duration kPoliteWait = std::chrono::milliseconds(5);
constexpr Duration kMendLimit = std::chrono::seconds(1);

constexpr Duration kAfterwards = std::chrono::seconds(1);  // to give back what was taken, however late it is

std::uint64_t living_copies(const Place& place) {
  return static_cast<std::uint64_t>(std::ranges::count_if(place, &Copy::lives));
}

}  // namespace

SlabMap::SlabMap(Fabric& fabric, PeerId self, const SpaceShape& shape, const FarRules& rules)
    : fabric_(fabric),
      shape_(shape),
      rules_(rules),
      holds_(fabric, self, (shape.bytes + shape.slab_bytes - 1) / shape.slab_bytes),
      places_((shape.bytes + shape.slab_bytes - 1) / shape.slab_bytes),
      copied_(std::min(kCopiedAtOnce, shape.slab_bytes)) {}

void SlabMap::add(std::unique_ptr<LentMemory> node) {
  if (node->slab_bytes() != shape_.slab_bytes) {
    throw Error({"use", "the memory of a node",
                 "its slabs have " + format_bytes(node->slab_bytes()) + " and those of others " +
                     format_bytes(shape_.slab_bytes),
                 "start all nodes alike"});
  }
  const std::lock_guard lock(mutex_);
  nodes_.push_back(std::move(node));
}

std::vector<LentMemory*> SlabMap::living() const {
  const std::lock_guard lock(mutex_);
  std::vector<LentMemory*> living;
  for (const auto& node : nodes_) {
    if (!node->lost()) living.push_back(node.get());
  }
  return living;
}

void SlabMap::find_lost(Channel& channel, Deadline deadline) const {
  for (LentMemory* node : living()) (void)node->answers(channel, deadline);
}

// ---- To have memory, and to give it back

Result SlabMap::provide(Channel& channel, std::uint64_t slab, Deadline deadline) {
  if (holds_.be_alone(channel, slab, deadline) != Outcome::done) return Result::timed_out;
  Place place = places_[slab];
  const Result result = place[0].node == nullptr ? take_copies(channel, slab, place, deadline) : Result::done;
  places_[slab] = place;
  holds_.end_alone(channel, slab);
  return result;
}

// Those that `place` lacks. Neighbours lie on different nodes. With fewer living nodes than there are to be copies,
// there are fewer.
Result SlabMap::take_copies(Channel& channel, std::uint64_t slab, Place& place, Deadline deadline) {
  const Place before = place;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const std::vector<LentMemory*> nodes = living();
    const std::uint64_t wanted = std::min<std::uint64_t>(shape_.copies, nodes.size());
    bool may_come = false;
    for (std::size_t i = 0; i < nodes.size() && living_copies(place) < wanted; ++i) {
      LentMemory* const node = nodes[(slab + i) % nodes.size()];
      if (std::ranges::any_of(place, [node](const Copy& each) { return each.node == node; })) continue;
      Copy found{node};
      const LentMemory::Take take = node->take(channel, found.slab, deadline);
      if (take == LentMemory::Take::taken) *std::ranges::find_if_not(place, &Copy::lives) = found;
      if (take == LentMemory::Take::failed) (void)node->answers(channel, deadline);
      may_come |= take == LentMemory::Take::soon || take == LentMemory::Take::failed;
    }
    const std::uint64_t taken = living_copies(place);
    if (taken != 0 && taken >= wanted) {
      return Result::done;
    }
    const bool late = fabric_.now() >= deadline.at;
    if (!may_come || late) {
      for (std::size_t i = 0; i < place.size(); ++i) {
        if (place[i].node != before[i].node && place[i].lives())
          place[i].node->give_back(channel, place[i].slab, fabric_.in(kAfterwards));
      }
      place = before;
      return late ? Result::timed_out : Result::full;
    }
    fabric_.sleep(pause);
  }
}

// Nobody shares the slab, so none of our operations on it is unfinished.
Result SlabMap::drop(Channel& channel, std::uint64_t slab, Deadline deadline) {
  if (rules_.gives_back_alone && holds_.be_alone(channel, slab, deadline) != Outcome::done) return Result::timed_out;
  for (Copy& each : places_[slab]) {
    if (each.lives()) each.node->give_back(channel, each.slab, fabric_.in(kAfterwards));
    each = {};
  }
  if (rules_.gives_back_alone) holds_.end_alone(channel, slab);
  return Result::done;
}

// ---- After a loss

// Grows with everything that leaves slabs with fewer copies than they should have, or allows them more.
std::uint64_t SlabMap::damage() const {
  const std::lock_guard lock(mutex_);
  const auto lost = std::ranges::count_if(nodes_, [](const auto& node) { return node->lost(); });
  return nodes_.size() + static_cast<std::uint64_t>(lost);
}

bool SlabMap::mend(Channel& channel, Deadline deadline) {
  const std::uint64_t damage_before = damage();
  if (shape_.copies == 1 || damage_before == mended_) return true;
  if (living().size() < shape_.copies) return false;
  bool all = true;
  for (std::uint64_t slab = 0; slab < slabs(); ++slab) {
    if (fabric_.now() >= deadline.at) return false;
    all &= mend_one(channel, slab);
  }
  if (all) mended_ = damage_before;
  return all;
}

// Nobody else reads or writes the slab meanwhile: else the new copy could miss a write.
bool SlabMap::mend_one(Channel& channel, std::uint64_t slab) {
  const Deadline polite = fabric_.in(kPoliteWait);
  if (rules_.rebuilds_alone && holds_.be_alone(channel, slab, polite) != Outcome::done) return false;
  const Place place = places_[slab];
  const auto survivor = std::ranges::find_if(place, &Copy::lives);
  bool whole = true;
  if (survivor != place.end() && living_copies(place) == 1) {
    Place next{*survivor, Copy{}};
    whole = add_copy(channel, slab, next);
    if (whole) places_[slab] = next;
  }
  if (rules_.rebuilds_alone) holds_.end_alone(channel, slab);
  return whole;
}

// To a place whose first copy has everything.
bool SlabMap::add_copy(Channel& channel, std::uint64_t slab, Place& place) {
  const Deadline deadline = fabric_.in(kMendLimit);
  const Copy from = place[0];
  if (take_copies(channel, slab, place, deadline) != Result::done) return false;
  const bool has_second = place[0].node == from.node && place[1].lives();
  if (has_second && copy(channel, from, place[1], deadline)) return true;
  for (const Copy& taken : place) {
    if (taken.node == nullptr || taken.node == from.node) continue;
    // Given back only when nothing of ours is unfinished there; otherwise it is nobody's until this client has gone.
    const Outcome over = channel.flush(taken.node->peer(), fabric_.in(kAfterwards));
    if (over == Outcome::done) taken.node->give_back(channel, taken.slab, fabric_.in(kAfterwards));
  }
  return false;
}

bool SlabMap::copy(Channel& channel, const Copy& from, const Copy& to, Deadline deadline) {
  for (std::uint64_t offset = 0; offset < shape_.slab_bytes; offset += kCopiedAtOnce) {
    const std::uint64_t bytes = std::min(kCopiedAtOnce, shape_.slab_bytes - offset);
    const LocalSpan piece(copied_.data(), bytes);
    if (channel.read(piece, from.node->span(from.slab, offset, bytes), deadline) != Outcome::done) return false;
    if (channel.write(to.node->span(to.slab, offset, bytes), piece, deadline) != Outcome::done) return false;
  }
  return channel.flush(to.node->peer(), deadline) == Outcome::done;
}

}  // namespace farside::far
