#include "far/protocol/striped_space.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.h"
#include "base/backoff.h"
#include "far/protocol/slab_list.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

constexpr Duration kPause = std::chrono::microseconds(200);  // until a loss may be known

// Only ever READ from.
std::array<std::byte, 64U << 10U> zeros{};

void insert_once(std::vector<LentMemory*>& nodes, LentMemory* node) {
  if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
}

}  // namespace

std::unique_ptr<IoContext> StripedSpace::open_io() { return std::make_unique<StripedIo>(map_); }

StripedIo::StripedIo(SlabMap& map) : map_(map), channel_(map.fabric().open_channel()) {
  assert_that(map.shape().block_bytes <= zeros.size(), "there are zeros for a whole block");
  slabs_.reserve(kSlabsOfAFault);
}

// ---- Lists, piece by piece

template <class Act>
void StripedIo::for_each_piece(std::span<const Transfer> list, Act act) const {
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
bool StripedIo::hold(For what, Deadline deadline) {
  for (std::size_t held = 0; held < slabs_.size();) {
    assert_that(held == 0 || slabs_[held - 1] < slabs_[held], "slabs are held in the order of their numbers");
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
void StripedIo::let_go(std::size_t held) {
  while (held != 0) map_.holds().unshare(*channel_, slabs_[--held]);
}

// The channel goes with what was posted through it, since it alone can tell when that is over.
void StripedIo::give_up() {
  Unfinished given_up{.channel = std::exchange(channel_, map_.fabric().open_channel()), .nodes = written_};
  given_up.slabs = slabs_;
  map_.leave_unfinished(*channel_, std::move(given_up));
  gave_up_ = true;
}

// An I/O context that gave up a write begins no other before that one is over. So what is unfinished does not pile up.
bool StripedIo::settle(Deadline deadline) {
  if (gave_up_ && map_.settle(*channel_, deadline) != Outcome::done) return false;
  gave_up_ = false;
  return true;
}

// ---- To read

Status StripedIo::read(std::span<const Transfer> list, Deadline deadline) {
  collect_slabs(list, map_.shape().bytes, map_.shape().slab_bytes, slabs_);
  Backoff<Duration> limits(map_.limits().read, time_limits::kPages);  // perhaps it is the network that is slow
  for (Duration limit = limits.next();;) {
    if (!hold(For::reading, deadline)) return Status::timed_out;
    const Attempt attempt = try_read(list, limit, deadline);
    let_go(slabs_.size());
    if (attempt == Attempt::done) return Status::done;
    if (attempt == Attempt::lost) return Status::lost;
    if (map_.fabric().now() >= deadline.at) return Status::timed_out;
    if (attempt == Attempt::timed_out) {
      limit = limits.next();
    } else {
      map_.fabric().sleep(kPause);
    }
  }
}

// Any copy that lives has all that was written. The first whose node answers is read; without one, the first.
const Copy* StripedIo::choose(const Place& place) const {
  const auto first = std::ranges::find_if(place, &Copy::lives);
  if (first == place.end()) return nullptr;
  if (!map_.rules().reads_other_copy || !first->node->unresponsive()) return &*first;
  const auto better = std::find_if(std::next(first), place.end(),
                                   [](const Copy& copy) { return copy.lives() && !copy.node->unresponsive(); });
  return better == place.end() ? &*first : &*better;
}

// If there is another copy to read, no node may take longer than `limit`.
StripedIo::Attempt StripedIo::try_read(std::span<const Transfer> list, Duration limit, Deadline deadline) {
  Asked asked;
  Batch batch(*channel_);
  for_each_piece(
      list, [&](std::uint64_t slab, std::uint64_t offset, LocalSpan local) { ask(batch, slab, offset, local, asked); });
  const bool may_ask_again = asked.has_other && map_.rules().reads_other_copy;
  const Deadline until = may_ask_again ? Deadline{std::min(deadline.at, map_.fabric().in(limit).at)} : deadline;
  const Outcome outcome = batch.wait(until);
  if (asked.lost) return Attempt::lost;
  if (outcome == Outcome::peer_lost) map_.find_lost(*channel_, deadline);
  if (outcome == Outcome::timed_out) return Attempt::timed_out;
  return outcome == Outcome::done ? Attempt::done : Attempt::again;
}

void StripedIo::ask(Batch& batch, std::uint64_t slab, std::uint64_t offset, LocalSpan local, Asked& asked) const {
  const Place& place = map_.place(slab);
  if (place[0].node == nullptr) return local.clear();
  const Copy* const copy = choose(place);
  for (std::uint64_t done = 0; done < local.bytes();) {
    const BlockStates::Run run = map_.blocks().run_at(slab, offset + done, local.bytes() - done);
    const LocalSpan part = local.piece(done, run.bytes);
    if (run.state == BlockState::zeros) {
      part.clear();
    } else if (run.state == BlockState::lost || copy == nullptr) {
      asked.lost = true;
    } else {
      asked.has_other |= copy->node->may_not_answer() && std::ranges::all_of(place, &Copy::lives);
      batch.read(part, copy->node->span(copy->slab, offset + done, run.bytes));
    }
    done += run.bytes;
  }
}

// ---- To write

Status StripedIo::write(std::span<const Transfer> list, Deadline deadline) {
  collect_slabs(list, map_.shape().bytes, map_.shape().slab_bytes, slabs_);
  if (!settle(deadline)) return Status::timed_out;
  for (;;) {
    const Status provided = provide(deadline);
    if (provided != Status::done && provided != Status::full) return provided;
    if (provided == Status::full && !hold(For::writing, deadline)) return Status::timed_out;
    if (const auto block = zeros_around(list)) {
      let_go(slabs_.size());
      if (const Status filled = fill(*block, deadline); filled != Status::done) return filled;
      collect_slabs(list, map_.shape().bytes, map_.shape().slab_bytes, slabs_);
      continue;
    }
    const Attempt attempt = try_write(list, provided, deadline);
    if (attempt == Attempt::timed_out && map_.rules().keeps_unfinished) {
      give_up();
    } else {
      let_go(slabs_.size());
    }
    if (attempt == Attempt::done) return provided;
    if (attempt == Attempt::lost) return Status::lost;
    if (attempt == Attempt::timed_out || map_.fabric().now() >= deadline.at) return Status::timed_out;
    map_.fabric().sleep(kPause);
  }
}

// Holds all slabs of the list, each with memory behind it, when done.
Status StripedIo::provide(Deadline deadline) {
  for (;;) {
    if (!hold(For::writing, deadline)) return Status::timed_out;
    const auto bare = std::ranges::find_if(slabs_, [this](std::uint64_t slab) { return !map_.has_place(slab); });
    if (bare == slabs_.end()) return Status::done;
    let_go(slabs_.size());
    if (const Status provided = map_.provide(*channel_, *bare, deadline); provided != Status::done) return provided;
  }
}

// A block of zeros that the list has a part of. Its memory holds something else.
std::optional<Transfer> StripedIo::zeros_around(std::span<const Transfer> list) const {
  std::optional<Transfer> found;
  for_each_piece(list, [&](std::uint64_t slab, std::uint64_t offset, LocalSpan local) {
    if (found || !map_.has_place(slab) || !map_.rules().fills_blocks) return;
    const auto block = map_.blocks().cut_by(slab, offset, local.bytes(), BlockState::zeros);
    if (!block) return;
    found = Transfer{slab * map_.shape().slab_bytes + block->offset, LocalSpan(zeros.data(), block->bytes)};
  });
  return found;
}

// Alone there: a thread that writes another part would lose what it has written. Readers wait meanwhile, so not for
// long. What failed before the deadline is tried again: the block is found again.
Status StripedIo::fill(const Transfer& block, Deadline deadline) {
  const Deadline soon{std::min(deadline.at, map_.fabric().in(time_limits::kFill).at)};
  const bool is_filled = fill_once(block, soon);
  return is_filled || map_.fabric().now() < deadline.at ? Status::done : Status::timed_out;
}

bool StripedIo::fill_once(const Transfer& block, Deadline deadline) {
  const std::uint64_t slab = block.offset / map_.shape().slab_bytes;
  const std::uint64_t offset = block.offset % map_.shape().slab_bytes;
  slabs_.assign(1, slab);
  if (map_.rules().fills_alone) {
    if (map_.be_alone(*channel_, slab, deadline) != Outcome::done) return false;
  } else if (!hold(For::writing, deadline)) {
    return false;
  }
  const bool is_zeros = map_.blocks().run_at(slab, offset, 1).state == BlockState::zeros;
  const Attempt attempt = is_zeros ? try_write({&block, 1}, Status::done, deadline) : Attempt::done;
  if (attempt == Attempt::timed_out) {
    give_up();
  } else if (map_.rules().fills_alone) {
    map_.holds().end_alone(*channel_, slab);
  } else {
    let_go(1);
  }
  return attempt == Attempt::done;
}

// If `provided` is full, pieces that have no place are left out.
StripedIo::Attempt StripedIo::try_write(std::span<const Transfer> list, Status provided, Deadline deadline) {
  bool lost = false;
  bool moves = false;
  written_.clear();
  Batch batch(*channel_);
  for_each_piece(list, [&](std::uint64_t slab, std::uint64_t offset, LocalSpan local) {
    if (map_.blocks().cut_by(slab, offset, local.bytes(), BlockState::lost)) {
      lost = true;
      return;
    }
    bool any = false;
    for (const Copy& copy : map_.place(slab)) {
      if (!copy.lives() || (any && !map_.rules().writes_all_copies)) continue;
      if (copy.node->unresponsive() && !map_.rules().writes_unresponsive) continue;
      any = true;
      insert_once(written_, copy.node);
      batch.write(copy.node->span(copy.slab, offset, local.bytes()), local);
    }
    moves |= !any && provided == Status::done;  // its last node was just lost
  });
  const Outcome written = batch.wait(deadline);
  const Attempt flushed = map_.rules().flushes_writes ? flush(deadline) : Attempt::done;
  if (flushed == Attempt::timed_out || written == Outcome::timed_out) return Attempt::timed_out;
  if (lost) return Attempt::lost;
  if (written == Outcome::peer_lost) map_.find_lost(*channel_, deadline);
  if (written != Outcome::done || moves) return Attempt::again;
  if (flushed == Attempt::done) {
    for_each_piece(list, [this](std::uint64_t slab, std::uint64_t offset, LocalSpan local) {
      // Also where the node was lost just now: then it is lost, and does not read as what the block was before.
      if (map_.place(slab)[0].node != nullptr) map_.blocks().store(slab, offset, local.bytes());
    });
  }
  return flushed;
}

// Everything that was written is over when none of them timed out. A lost link is not the end of what was written, so
// it is flushed until it is over, and then written again.
StripedIo::Attempt StripedIo::flush(Deadline deadline) {
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

Status StripedIo::discard(std::uint64_t offset, std::uint64_t bytes, Deadline deadline) {
  const std::uint64_t slab_bytes = map_.shape().slab_bytes;
  const std::uint64_t end = std::min(offset + bytes, map_.shape().bytes);
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t slab = at / slab_bytes;
    const std::uint64_t slab_end = std::min((slab + 1) * slab_bytes, map_.shape().bytes);
    const std::uint64_t here = std::min(end, slab_end);
    const bool whole = at % slab_bytes == 0 && here == slab_end;
    const Status status = whole ? map_.drop(*channel_, slab, deadline)
                                : discard_part(slab, at % slab_bytes, at % slab_bytes + (here - at), deadline);
    if (status != Status::done) return status;
    at = here;
  }
  return Status::done;
}

// Blocks that lie whole in it are zeros from here on. What is left of others is overwritten.
Status StripedIo::discard_part(std::uint64_t slab, std::uint64_t begin, std::uint64_t end, Deadline deadline) {
  slabs_.assign(1, slab);
  if (!hold(For::writing, deadline)) return Status::timed_out;
  const bool has_memory = map_.place(slab)[0].node != nullptr;
  const bool all = has_memory && map_.blocks().clear(slab, begin, end - begin);
  let_go(slabs_.size());
  if (!has_memory) return Status::done;
  if (all) {
    map_.drop_zeros(*channel_, slab);
    return Status::done;
  }
  const BlockStates::Part whole = map_.blocks().whole_blocks(slab, begin, end - begin);
  const Status head = write_zeros(slab, begin, whole.begin, deadline);
  const Status tail = write_zeros(slab, whole.end, end, deadline);
  return head != Status::done ? head : tail;
}

// Over a part of a block, unless it is zeros.
Status StripedIo::write_zeros(std::uint64_t slab, std::uint64_t begin, std::uint64_t end, Deadline deadline) {
  if (begin == end) return Status::done;
  assert_that(begin < end && end - begin < map_.shape().block_bytes, "only a part of a block is overwritten");
  slabs_.assign(1, slab);
  if (!hold(For::reading, deadline)) return Status::timed_out;
  const bool is_zeros =
      map_.place(slab)[0].node == nullptr || map_.blocks().run_at(slab, begin, end - begin).state == BlockState::zeros;
  const bool is_lost = !map_.has_place(slab);
  let_go(slabs_.size());
  if (is_zeros) return Status::done;
  if (is_lost) return Status::lost;
  const Transfer transfer{slab * map_.shape().slab_bytes + begin, LocalSpan(zeros.data(), end - begin)};
  return write({&transfer, 1}, deadline);
}

}  // namespace farside::far
