#include "far/protocol/slab_map.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/rounding.h"
#include "farside/base/units.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

constexpr Duration kFirstPause = std::chrono::microseconds(50);
constexpr Duration kMaxPause = std::chrono::milliseconds(2);
constexpr std::uint64_t kCopiedAtOnce = 256U << 10U;

std::uint64_t living_copies(const Place& place) {
  return static_cast<std::uint64_t>(std::ranges::count_if(place, &Copy::lives));
}

Deadline sooner(Deadline one, Deadline other) { return {std::min(one.at, other.at)}; }

}  // namespace

std::uint64_t room_for(std::span<const std::uint64_t> free_slabs, std::uint32_t copies) {
  const std::uint64_t sum = std::accumulate(free_slabs.begin(), free_slabs.end(), std::uint64_t{0});
  if (copies == 1 || free_slabs.empty()) return sum;
  return std::min(sum / 2, sum - *std::ranges::max_element(free_slabs));  // a partner for each of the largest
}

SlabMap::SlabMap(Fabric& fabric, PeerId self, const SpaceShape& shape, const FarRules& rules,
                 const AnswerLimits& limits)
    : fabric_(fabric),
      shape_(shape),
      rules_(rules),
      limits_(limits),
      holds_(fabric, self, div_ceil(shape.bytes, shape.slab_bytes)),
      places_(div_ceil(shape.bytes, shape.slab_bytes)),
      blocks_(shape.bytes, shape.slab_bytes, shape.block_bytes),
      noted_lost_(places_.size()),
      returns_(fabric),
      repairer_(fabric.open_channel()),
      copy_limits_(time_limits::kFirstRepairTimeout, time_limits::kMaxRepairTimeout),
      copied_(std::min(kCopiedAtOnce, shape.slab_bytes)) {}

void SlabMap::add(std::unique_ptr<LentMemory> node) {
  if (node->slab_bytes() != shape_.slab_bytes) {
    throw Error({"use", "the memory of a node",
                 "its slabs have " + format_bytes(node->slab_bytes()) + " and those of others " +
                     format_bytes(shape_.slab_bytes),
                 "start all nodes alike"});
  }
  const MutexLock lock(mutex_);
  nodes_.push_back(std::move(node));
}

std::vector<LentMemory*> SlabMap::living() const {
  const MutexLock lock(mutex_);
  std::vector<LentMemory*> living;
  for (const auto& node : nodes_) {
    if (!node->lost()) living.push_back(node.get());
  }
  return living;
}

void SlabMap::find_lost(Channel& channel, Deadline deadline) const {
  for (LentMemory* node : living()) {
    if (!node->unresponsive()) (void)node->answers(channel, sooner(deadline, fabric_.in(time_limits::kAnswer)));
  }
}

// ---- Nodes that do not answer

bool SlabMap::is_out_of_reach(std::uint64_t slab) const {
  const MutexLock lock(mutex_);
  const Place& place = places_[slab];
  const auto answers = [](const Copy& copy) { return copy.lives() && !copy.node->unresponsive(); };
  return living_copies(place) != 0 && std::ranges::none_of(place, answers);
}

bool SlabMap::may_wait_for_room(std::uint64_t slab) const {
  const MutexLock lock(mutex_);
  const auto hangs = [](const auto& node) { return !node->lost() && node->unresponsive(); };
  return living_copies(places_[slab]) == 0 && std::ranges::any_of(nodes_, hangs);
}

bool SlabMap::give_up(LentMemory& node, std::span<LentMemory* const> answering) {
  // No place changes, and no other node is given up, between the look at the places and the loss.
  const MutexLock lock(mutex_);
  if (!is_spared_by(node, answering)) return false;
  node.mark_lost();
  return true;
}

bool SlabMap::is_spared_by(const LentMemory& node, std::span<LentMemory* const> answering) const {
  if (answering.empty() && rules_.gives_up_one_of_several) return false;
  const auto is_there = [&](const Copy& copy) {
    const bool answers = std::ranges::find(answering, copy.node) != answering.end();
    return copy.node != &node && (answers || !rules_.gives_up_one_of_several) && copy.lives();
  };
  return !rules_.keeps_last_copies || std::ranges::all_of(places_, [&](const Place& place) {
    const bool is_at_it = std::ranges::any_of(place, [&node](const Copy& copy) { return copy.node == &node; });
    return !is_at_it || std::ranges::any_of(place, is_there);
  });
}

CopyCounts SlabMap::count_copies() const {
  CopyCounts counts;
  const MutexLock lock(mutex_);
  for (const Place& place : places_) {
    if (place[0].node == nullptr) continue;
    const std::uint64_t living = living_copies(place);
    ++(living == 0 ? counts.lost : living < shape_.copies ? counts.single : counts.whole);
  }
  return counts;
}

std::vector<Loss> SlabMap::take_losses() {
  const MutexLock lock(mutex_);
  for (std::uint64_t slab = 0; slab < slabs(); ++slab) note_loss(slab);
  return std::exchange(losses_, {});
}

// If its place is lost, and that is not noted yet.
void SlabMap::note_loss(std::uint64_t slab) {
  const Place& place = places_[slab];
  if (place[0].node == nullptr || living_copies(place) != 0 || noted_lost_[slab] != 0) return;
  noted_lost_[slab] = 1;
  losses_.push_back({slab * shape_.slab_bytes, place[0].node->peer()});
}

void SlabMap::set_place(std::uint64_t slab, const Place& place) {
  assert_that(!rules_.rebuilds_alone || !rules_.gives_back_alone || holds_.is_alone(slab),
              "a slab's place changes only while one thread is alone there");
  assert_that(place[0].node != nullptr || place[1].node == nullptr, "a slab without a first copy has no second one");
  assert_that(place[0].node == nullptr || place[0].node != place[1].node, "copies of a slab lie on different nodes");
  const MutexLock lock(mutex_);
  note_loss(slab);
  noted_lost_[slab] = 0;
  places_[slab] = place;
}

// ---- What was given up

void SlabMap::leave_unfinished(Channel& channel, Unfinished given_up) {
  for (const std::uint64_t slab : given_up.slabs) holds_.leave_unfinished(channel, slab);
  const MutexLock lock(mutex_);  // a thread that saw the words before finds it soon
  unfinished_.push_back(std::move(given_up));
}

// Picks any; or one that is under way in `slab`. None: there is none, or another thread sees to it.
std::optional<Unfinished> SlabMap::pick_unfinished(std::optional<std::uint64_t> slab) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(unfinished_, [slab](const Unfinished& each) {
    return !slab || std::ranges::find(each.slabs, *slab) != each.slabs.end();
  });
  if (found == unfinished_.end()) return std::nullopt;
  Unfinished picked = std::move(*found);
  unfinished_.erase(found);
  return picked;
}

// It is over when its channel was flushed, or the nodes that it went to are lost: those are written to no more.
Outcome SlabMap::end(Channel& channel, Unfinished given_up, Deadline deadline) {
  while (!given_up.nodes.empty()) {
    LentMemory* const node = given_up.nodes.back();
    const Outcome flushed = given_up.channel->flush(node->peer(), deadline);
    const bool lost_link = flushed == Outcome::link_lost && rules_.flushes_lost_links;
    if (flushed == Outcome::timed_out || lost_link) {
      if (fabric_.now() >= deadline.at) {
        const MutexLock lock(mutex_);
        unfinished_.push_back(std::move(given_up));
        return Outcome::timed_out;
      }
      fabric_.sleep(kFirstPause);
      continue;
    }
    if (flushed == Outcome::peer_lost && !node->lost()) node->mark_lost();
    given_up.nodes.pop_back();
  }
  for (const std::uint64_t slab : given_up.slabs) holds_.finish(channel, slab);
  for (const Copy& copy : given_up.spare) returns_.give_back(copy);
  return Outcome::done;
}

Outcome SlabMap::settle(Channel& channel, std::uint64_t slab, Deadline deadline) {
  for (;;) {
    if (auto picked = pick_unfinished(slab)) {
      if (const Outcome ended = end(channel, std::move(*picked), deadline); ended != Outcome::done) return ended;
      continue;
    }
    // Nothing is left, or another thread is at it, and may fail.
    const Deadline soon{std::min(deadline.at, fabric_.now() + kMaxPause)};
    const Outcome waited = holds_.wait_finished(channel, slab, soon);
    if (waited != Outcome::timed_out || fabric_.now() >= deadline.at) return waited;
  }
}

Outcome SlabMap::settle(Channel& channel, Deadline deadline) {
  while (auto picked = pick_unfinished(std::nullopt)) {
    if (const Outcome ended = end(channel, std::move(*picked), deadline); ended != Outcome::done) return ended;
  }
  return Outcome::done;
}

// ---- To have memory, and to give it back

Outcome SlabMap::be_alone(Channel& channel, std::uint64_t slab, Deadline deadline) {
  for (;;) {
    const Holds::Held held = holds_.be_alone(channel, slab, deadline);
    if (held.outcome != Outcome::done || !held.unfinished) return held.outcome;
    if (const Outcome settled = settle(channel, slab, deadline); settled != Outcome::done) return settled;
  }
}

Status SlabMap::provide(Channel& channel, std::uint64_t slab, Deadline deadline) {
  if (be_alone(channel, slab, deadline) != Outcome::done) return Status::timed_out;
  Status status = Status::done;
  if (!has_place(slab)) {
    Place place{};
    status = take_copies(channel, slab, place, deadline);
    // A slab that was taken at nodes that are lost by now was never written to: the next attempt begins anew.
    if (status == Status::done && living_copies(place) != 0) {
      if (places_[slab][0].node != nullptr && rules_.remembers_losses) blocks_.lose(slab);
      set_place(slab, place);
    }
  }
  holds_.end_alone(channel, slab);
  return status;
}

// Those that `place` lacks. Neighbours lie on different nodes. With fewer living nodes than there are to be copies,
// there are fewer. Nodes that do not answer are not waited for while others have room.
Status SlabMap::take_copies(Channel& channel, std::uint64_t slab, Place& place, Deadline deadline) {
  const Place before = place;
  for (Backoff<Duration> backoff(kFirstPause, kMaxPause);;) {
    const std::vector<LentMemory*> nodes = living();
    const std::uint64_t wanted = std::min<std::uint64_t>(shape_.copies, nodes.size());
    bool may_come = false;
    for (std::size_t i = 0; i < nodes.size() && living_copies(place) < wanted; ++i) {
      LentMemory* const node = nodes[(slab + i) % nodes.size()];
      if (std::ranges::any_of(place, [node](const Copy& each) { return each.node == node; })) continue;
      if (node->unresponsive()) {
        may_come = true;  // it answers again, or is given up
        continue;
      }
      Copy found{node};
      const LentMemory::Take take = node->take(channel, found.slab, sooner(deadline, fabric_.in(time_limits::kTake)));
      if (take == LentMemory::Take::taken) {
        auto* const lacking = std::ranges::find_if_not(place, &Copy::lives);
        assert_that(lacking != place.end(), "a place that lacks a copy has room for it");
        *lacking = found;
      }
      if (take == LentMemory::Take::failed)
        (void)node->answers(channel, sooner(deadline, fabric_.in(time_limits::kAnswer)));
      may_come |= take == LentMemory::Take::soon || take == LentMemory::Take::failed;
    }
    const std::uint64_t taken = living_copies(place);
    if (taken != 0 && taken >= wanted) {
      return Status::done;
    }
    const bool late = fabric_.now() >= deadline.at;
    if (!may_come || late) {
      for (std::size_t i = 0; i < place.size(); ++i) {
        if (place[i].node != before[i].node && place[i].lives()) returns_.give_back(place[i]);
      }
      place = before;
      if (late) return Status::timed_out;
      return nodes.empty() ? Status::lost : Status::full;
    }
    fabric_.sleep(backoff.next());
  }
}

// No thread shares the slab while it is dropped, so none of our operations on it is unfinished.
Status SlabMap::drop(Channel& channel, std::uint64_t slab, Deadline deadline) {
  if (rules_.gives_back_alone && be_alone(channel, slab, deadline) != Outcome::done) return Status::timed_out;
  give_back_all(slab);
  if (rules_.gives_back_alone) holds_.end_alone(channel, slab);
  return Status::done;
}

// Readers wait meanwhile. If it is in use for longer, the thread that repairs tries again.
void SlabMap::drop_zeros(Channel& channel, std::uint64_t slab) {
  if (be_alone(channel, slab, fabric_.in(time_limits::kQuiesceTimeout)) != Outcome::done) {
    const MutexLock lock(mutex_);
    unused_.insert(slab);
    return;
  }
  if (blocks_.all_zeros(slab)) give_back_all(slab);
  holds_.end_alone(channel, slab);
}

void SlabMap::give_back_all(std::uint64_t slab) {
  for (const Copy& each : places_[slab]) {
    if (each.lives()) returns_.give_back(each);
  }
  set_place(slab, {});
  blocks_.reset(slab);
}

void SlabMap::drop_unused() {
  std::set<std::uint64_t> unused;
  {
    const MutexLock lock(mutex_);
    unused = std::exchange(unused_, {});
  }
  for (const std::uint64_t slab : unused) drop_zeros(*repairer_, slab);
}

// ---- After a loss

// Grows with everything that leaves slabs with fewer copies than they should have, or allows them more.
std::uint64_t SlabMap::damage() const {
  const MutexLock lock(mutex_);
  const auto lost = std::ranges::count_if(nodes_, [](const auto& node) { return node->lost(); });
  return nodes_.size() + static_cast<std::uint64_t>(lost);
}

bool SlabMap::repair(Deadline deadline) {
  (void)settle(*repairer_,
               Deadline{std::min(deadline.at, fabric_.in(time_limits::kSettle).at)});  // or in the next round
  returns_.settle(living(), *repairer_);
  drop_unused();
  const std::uint64_t damage_before = damage();
  if (shape_.copies == 1 || damage_before == repaired_) return true;
  if (living().size() < shape_.copies) return false;
  bool all = true;
  for (std::uint64_t slab = 0; slab < slabs(); ++slab) {
    if (fabric_.now() >= deadline.at) return false;
    all &= repair_one(slab);
  }
  if (all) repaired_ = damage_before;
  return all;
}

// No other thread reads or writes the slab during the call: else the new copy could miss a write.
bool SlabMap::repair_one(std::uint64_t slab) {
  const Deadline polite = fabric_.in(time_limits::kQuiesceTimeout);
  if (rules_.rebuilds_alone && be_alone(*repairer_, slab, polite) != Outcome::done) return false;
  const Place place = places_[slab];
  const auto survivor = std::ranges::find_if(place, &Copy::lives);
  bool whole = true;
  if (survivor != place.end() && living_copies(place) == 1) {
    Place next{*survivor, Copy{}};
    whole = may_copy(*survivor) && add_copy(slab, next);
    if (whole) set_place(slab, next);
  }
  if (rules_.rebuilds_alone) holds_.end_alone(*repairer_, slab);
  return whole;
}

// Whether its node answers, and another one. Readers wait while a slab is copied.
bool SlabMap::may_copy(const Copy& from) const {
  return !from.node->unresponsive() && std::ranges::any_of(living(), [&from](const LentMemory* node) {
    return node != from.node && !node->unresponsive();
  });
}

// To a place whose first copy has everything.
bool SlabMap::add_copy(std::uint64_t slab, Place& place) {
  const Deadline deadline = fabric_.in(copy_limits_.current());
  const Copy from = place[0];
  if (take_copies(*repairer_, slab, place, deadline) != Status::done) return false;
  const bool has_second = place[0].node == from.node && place[1].lives();
  if (has_second && copy(from, place[1], deadline)) return true;
  if (fabric_.now() >= deadline.at) (void)copy_limits_.next();  // the next slab has twice as long
  for (const Copy& taken : place) {
    if (taken.node == nullptr || taken.node == from.node) continue;
    Unfinished given_up{.channel = std::exchange(repairer_, fabric_.open_channel()), .nodes = {taken.node}};
    given_up.spare = {taken};
    leave_unfinished(*repairer_, std::move(given_up));
  }
  return false;
}

bool SlabMap::copy(const Copy& from, const Copy& to, Deadline deadline) {
  for (std::uint64_t offset = 0; offset < shape_.slab_bytes; offset += kCopiedAtOnce) {
    const std::uint64_t bytes = std::min(kCopiedAtOnce, shape_.slab_bytes - offset);
    const LocalSpan piece(copied_.data(), bytes);
    if (repairer_->read(piece, from.node->span(from.slab, offset, bytes), deadline) != Outcome::done) return false;
    if (repairer_->write(to.node->span(to.slab, offset, bytes), piece, deadline) != Outcome::done) return false;
  }
  return repairer_->flush(to.node->peer(), deadline) == Outcome::done;
}

}  // namespace farside::far
