#include "far/protocol/striped_space.h"

#include <algorithm>
#include <array>
#include <utility>

#include "far/protocol/slab_list.h"

namespace farside::far {

namespace {

constexpr Duration kPause = std::chrono::microseconds(200);  // until a loss may be known
constexpr std::uint64_t kClearedAtOnce = 64U << 10U;

void insert_once(std::vector<LentMemory*>& nodes, LentMemory* node) {
  if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
}

}  // namespace

std::unique_ptr<Lane> StripedSpace::open_lane() { return std::make_unique<StripedLane>(map_); }

StripedLane::StripedLane(SlabMap& map) : map_(map), channel_(map.fabric().open_channel()) {
  slabs_.reserve(kSlabsOfAFault);
}

// ---- Lists, piece by piece

template <class Act>
void StripedLane::for_each_piece(std::span<const Transfer> list, Act act) const {
  const std::uint64_t slab_bytes = map_.shape().slab_bytes;
  for (const Transfer& transfer : list) {
    for (std::uint64_t done = 0; done < transfer.local.bytes();) {
      const std::uint64_t at = transfer.offset + done;
      const std::uint64_t bytes = std::min(transfer.local.bytes() - done, slab_bytes - at % slab_bytes);
      act(at / slab_bytes, at % slab_bytes, transfer.local.piece(done, bytes));
      done += bytes;
    }
  }
}

// A writer, unlike a reader, waits until nothing that was given up can land there any more.
bool StripedLane::hold(For what, Deadline deadline) {
  for (std::size_t held = 0; held < slabs_.size();) {
    const Holds::Held slab = map_.holds().share(*channel_, slabs_[held], deadline);
    if (slab.outcome != Outcome::done) {
      let_go(held);
      return false;
    }
    ++held;
    if (!slab.unfinished || what == For::reading || !map_.rules().settles_first) continue;
    let_go(held);
    if (map_.settle(*channel_, slabs_[held - 1], deadline) != Outcome::done) return false;
    held = 0;
  }
  return true;
}

// The first ones of the list.
void StripedLane::let_go(std::size_t held) {
  while (held != 0) map_.holds().unshare(*channel_, slabs_[--held]);
}

// The channel goes with what was posted through it, since it alone can tell when that is over.
void StripedLane::give_up() {
  Unfinished given_up{.channel = std::exchange(channel_, map_.fabric().open_channel()), .nodes = written_};
  given_up.slabs = slabs_;
  map_.leave_unfinished(*channel_, std::move(given_up));
  gave_up_ = true;
}

// A lane that gave up a write begins no other before that one is over. So what is unfinished does not pile up.
bool StripedLane::settle(Deadline deadline) {
  if (gave_up_ && map_.settle(*channel_, deadline) != Outcome::done) return false;
  gave_up_ = false;
  return true;
}

// ---- To read

Result StripedLane::read(std::span<const Transfer> list, Deadline deadline) {
  collect_slabs(list, map_.shape().bytes, map_.shape().slab_bytes, slabs_);
  for (;;) {
    if (!hold(For::reading, deadline)) return Result::timed_out;
    const Attempt attempt = try_read(list, deadline);
    let_go(slabs_.size());
    if (attempt == Attempt::done) return Result::done;
    if (attempt == Attempt::lost) return Result::lost;
    if (attempt == Attempt::timed_out || map_.fabric().now() >= deadline.at) return Result::timed_out;
    map_.fabric().sleep(kPause);
  }
}

StripedLane::Attempt StripedLane::try_read(std::span<const Transfer> list, Deadline deadline) {
  bool lost = false;
  Batch batch(*channel_);
  for_each_piece(list, [&](std::uint64_t slab, std::uint64_t offset, LocalSpan local) {
    const Place& place = map_.place(slab);
    const auto copy = std::ranges::find_if(place, &Copy::lives);
    if (place[0].node == nullptr) {
      local.clear();
    } else if (copy == place.end()) {
      lost = true;
    } else {
      batch.read(local, copy->node->span(copy->slab, offset, local.bytes()));
    }
  });
  const Outcome outcome = batch.wait(deadline);
  if (lost) return Attempt::lost;
  if (outcome == Outcome::peer_lost) map_.find_lost(*channel_, deadline);
  if (outcome == Outcome::timed_out) return Attempt::timed_out;
  return outcome == Outcome::done ? Attempt::done : Attempt::again;
}

// ---- To write

Result StripedLane::write(std::span<const Transfer> list, Deadline deadline) {
  collect_slabs(list, map_.shape().bytes, map_.shape().slab_bytes, slabs_);
  if (!settle(deadline)) return Result::timed_out;
  for (;;) {
    const Result provided = provide(deadline);
    if (provided != Result::done && provided != Result::full) return provided;
    if (provided == Result::full && !hold(For::writing, deadline)) return Result::timed_out;
    const Attempt attempt = try_write(list, deadline);
    if (attempt == Attempt::timed_out && map_.rules().keeps_unfinished) {
      give_up();
    } else {
      let_go(slabs_.size());
    }
    if (attempt == Attempt::done) return provided;
    if (attempt == Attempt::lost) return Result::lost;
    if (attempt == Attempt::timed_out || map_.fabric().now() >= deadline.at) return Result::timed_out;
    map_.fabric().sleep(kPause);
  }
}

// Holds all slabs of the list, each with memory behind it, when done.
Result StripedLane::provide(Deadline deadline) {
  for (;;) {
    if (!hold(For::writing, deadline)) return Result::timed_out;
    const auto bare =
        std::ranges::find_if(slabs_, [this](std::uint64_t slab) { return map_.place(slab)[0].node == nullptr; });
    if (bare == slabs_.end()) return Result::done;
    let_go(slabs_.size());
    if (const Result provided = map_.provide(*channel_, *bare, deadline); provided != Result::done) return provided;
  }
}

StripedLane::Attempt StripedLane::try_write(std::span<const Transfer> list, Deadline deadline) {
  bool lost = false;
  written_.clear();
  Batch batch(*channel_);
  for_each_piece(list, [&](std::uint64_t slab, std::uint64_t offset, LocalSpan local) {
    const Place& place = map_.place(slab);
    if (place[0].node == nullptr) return;  // no node had room for it
    bool any = false;
    for (const Copy& copy : place) {
      if (!copy.lives() || (any && !map_.rules().writes_all_copies)) continue;
      any = true;
      insert_once(written_, copy.node);
      batch.write(copy.node->span(copy.slab, offset, local.bytes()), local);
    }
    lost |= !any;
  });
  const Outcome written = batch.wait(deadline);
  const Attempt flushed = map_.rules().flushes_writes ? flush(deadline) : Attempt::done;
  if (flushed == Attempt::timed_out || written == Outcome::timed_out) return Attempt::timed_out;
  if (lost) return Attempt::lost;
  if (written == Outcome::peer_lost) map_.find_lost(*channel_, deadline);
  return written == Outcome::done ? flushed : Attempt::again;
}

// Everything that was written is over when none of them timed out. A lost link is not the end of what was written, so
// it is flushed until it is over, and then written again.
StripedLane::Attempt StripedLane::flush(Deadline deadline) {
  Attempt all = Attempt::done;
  for (LentMemory* node : written_) {
    Outcome flushed = channel_->flush(node->peer(), deadline);
    while (flushed == Outcome::link_lost && map_.rules().flushes_lost_links) {
      if (all == Attempt::done) all = Attempt::again;
      flushed = channel_->flush(node->peer(), deadline);
    }
    if (flushed == Outcome::timed_out) all = Attempt::timed_out;
    if (flushed == Outcome::peer_lost && !node->lost()) node->mark_lost();
    if (flushed == Outcome::peer_lost && all == Attempt::done) all = Attempt::again;
  }
  return all;
}

// ---- To discard

Result StripedLane::discard(std::uint64_t offset, std::uint64_t bytes, Deadline deadline) {
  const std::uint64_t slab_bytes = map_.shape().slab_bytes;
  const std::uint64_t end = std::min(offset + bytes, map_.shape().bytes);
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t slab = at / slab_bytes;
    const std::uint64_t slab_end = std::min((slab + 1) * slab_bytes, map_.shape().bytes);
    const std::uint64_t here = std::min(end, slab_end);
    const bool whole = at % slab_bytes == 0 && here == slab_end;
    const Result result = whole ? map_.drop(*channel_, slab, deadline) : clear(slab, at, here - at, deadline);
    if (result != Result::done) return result;
    at = here;
  }
  return Result::done;
}

// Writes zeros over a part of a slab, if it has memory at all.
Result StripedLane::clear(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes, Deadline deadline) {
  slabs_.assign(1, slab);
  if (!hold(For::reading, deadline)) return Result::timed_out;
  const bool is_zero = map_.place(slab)[0].node == nullptr;
  let_go(slabs_.size());
  if (is_zero) return Result::done;
  static std::array<std::byte, kClearedAtOnce> zeros{};  // only ever READ from
  for (std::uint64_t done = 0; done < bytes; done += kClearedAtOnce) {
    const Transfer transfer{offset + done, LocalSpan(zeros.data(), std::min(kClearedAtOnce, bytes - done))};
    if (const Result result = write({&transfer, 1}, deadline); result != Result::done) return result;
  }
  return Result::done;
}

}  // namespace farside::far
