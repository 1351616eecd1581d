#include "far/spill/spilled_space.h"

#include <algorithm>
#include <utility>

#include "base/backoff.h"
#include "far/protocol/slab_list.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

constexpr std::uint64_t kCarriedAtOnce = 64U << 10U;

Status status_of(SpillFile::Put put) {
  switch (put) {
    case SpillFile::Put::queued: return Status::done;
    case SpillFile::Put::late: return Status::timed_out;
    case SpillFile::Put::failed: break;
  }
  return Status::full;
}

}  // namespace

SpilledSpace::SpilledSpace(std::unique_ptr<Space> pool, std::uint64_t slab_bytes, const std::filesystem::path& file,
                           Unresponsive unresponsive, std::size_t queue_bytes)
    : spill_(std::move(pool), slab_bytes, file, std::move(unresponsive), queue_bytes) {}

std::unique_ptr<IoContext> SpilledSpace::open_io() { return std::make_unique<SpilledIo>(spill_); }

SpilledIo::SpilledIo(Spill& spill) : spill_(spill), pool_(spill.pool->open_io()), carried_(kCarriedAtOnce) {
  slabs_.reserve(kSlabsOfAFault);
  pieces_.reserve(kSlabsOfAFault);
}

SpilledIo::Clock::time_point SpilledIo::clock_of(Deadline deadline) const {
  return Clock::now() + (deadline.at - spill_.pool->fabric().now());
}

// ---- Lists, slab by slab

void SpilledIo::collect_pieces(std::span<const Transfer> list, std::uint64_t slab) {
  const std::uint64_t begin = slab * spill_.slab_bytes;
  const std::uint64_t end = begin + spill_.slab_bytes;
  pieces_.clear();
  for (const Transfer& transfer : list) {
    const std::uint64_t from = std::max(begin, transfer.offset);
    const std::uint64_t to = std::min(end, transfer.offset + transfer.local.bytes());
    if (from < to) pieces_.push_back({from, transfer.local.piece(from - transfer.offset, to - from)});
  }
}

std::uint64_t SpilledIo::bytes_of(std::uint64_t slab) const {
  return std::min(spill_.slab_bytes, spill_.pool->bytes() - slab * spill_.slab_bytes);
}

template <class OnPool, class OnFile>
Status SpilledIo::slab_by_slab(std::span<const Transfer> list, Deadline deadline, OnPool on_pool, OnFile on_file) {
  for (const std::uint64_t slab : slabs_) {
    collect_pieces(list, slab);
    const Status status = at_slab(
        slab, deadline, [&] { return on_pool(slab, pieces_); }, [&] { return on_file(pieces_); });
    if (status != Status::done) return status;
  }
  return Status::done;
}

// The file has what the pool has not, and what is at a node that does not answer.
template <class OnPool, class OnFile>
Status SpilledIo::at_slab(std::uint64_t slab, Deadline deadline, OnPool on_pool, OnFile on_file) {
  if (spill_.unresponsive.has(slab)) (void)leave_to_file(slab, deadline);
  bring_back(slab, deadline);
  for (;;) {
    switch (spill_.states.use({&slab, 1}, clock_of(deadline))) {
      case SlabStates::Entry::late: return Status::timed_out;
      case SlabStates::Entry::some_in_file: {
        const Status status = on_file();
        spill_.states.end_use({&slab, 1});
        return status;
      }
      case SlabStates::Entry::pool: break;
    }
    const Status status = on_pool();
    spill_.states.end_use({&slab, 1});
    if (status != Status::lost && status != Status::full) return status;
    if (const Status left = leave_to_file(slab, deadline); left != Status::done) return left;
    bring_back(slab, deadline);
  }
}

// ---- To read and write

Status SpilledIo::read(std::span<const Transfer> list, Deadline deadline) {
  collect_slabs(list, spill_.pool->bytes(), spill_.slab_bytes, slabs_);
  const SlabStates::Entry entry = spill_.states.use(slabs_, clock_of(deadline));
  if (entry == SlabStates::Entry::late) return Status::timed_out;
  const Status status = entry == SlabStates::Entry::pool ? read_pool(slabs_, list, deadline) : Status::lost;
  spill_.states.end_use(slabs_);
  if (status != Status::lost) return status;
  return slab_by_slab(
      list, deadline,
      [&](std::uint64_t slab, std::span<const Transfer> pieces) {
        return read_pool({&slab, 1}, pieces, deadline);
      },
      [&](std::span<const Transfer> pieces) { return take(pieces, deadline); });
}

// Queued first: what the pool has, the file is about to have.
Status SpilledIo::write(std::span<const Transfer> list, Deadline deadline) {
  collect_slabs(list, spill_.pool->bytes(), spill_.slab_bytes, slabs_);
  const SlabStates::Entry entry = spill_.states.use(slabs_, clock_of(deadline));
  if (entry == SlabStates::Entry::late) return Status::timed_out;
  Status status = put(list, deadline);
  const bool is_put = status == Status::done;
  if (is_put) status = entry == SlabStates::Entry::pool ? write_pool(slabs_, list, deadline) : Status::lost;
  spill_.states.end_use(slabs_);
  if (!is_put || (status != Status::lost && status != Status::full)) return status;
  // Pieces that are in the file alone are written already.
  return slab_by_slab(
      list, deadline,
      [&](std::uint64_t slab, std::span<const Transfer> pieces) {
        return write_pool({&slab, 1}, pieces, deadline);
      },
      [](std::span<const Transfer>) { return Status::done; });
}

template <class Try>
Status SpilledIo::try_pool(std::span<const std::uint64_t> slabs, Deadline deadline, Try try_it) {
  Fabric& fabric = spill_.pool->fabric();
  if (std::ranges::any_of(slabs, spill_.unresponsive.has)) return Status::lost;
  Backoff<Duration> limits(time_limits::kRead, time_limits::kPages);  // perhaps it is the network that is slow
  for (;;) {
    const Status status = try_it(Deadline{std::min(deadline.at, fabric.in(limits.next()).at)});
    if (status != Status::timed_out) return status;
    if (std::ranges::any_of(slabs, [this](std::uint64_t slab) { return waits_for_unresponsive(slab); })) {
      return Status::lost;
    }
    if (fabric.now() >= deadline.at) return Status::timed_out;
  }
}

Status SpilledIo::read_pool(std::span<const std::uint64_t> slabs, std::span<const Transfer> list, Deadline deadline) {
  return try_pool(slabs, deadline, [&](Deadline until) { return pool_->read(list, until); });
}

Status SpilledIo::write_pool(std::span<const std::uint64_t> slabs, std::span<const Transfer> list, Deadline deadline) {
  return try_pool(slabs, deadline, [&](Deadline until) { return renewing(pool_->write(list, until)); });
}

Status SpilledIo::discard_pool(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes, Deadline deadline) {
  return try_pool({&slab, 1}, deadline, [&](Deadline until) { return renewing(pool_->discard(offset, bytes, until)); });
}

// An I/O context that gave up a write begins no other before that one is over, which may take as long as a node does
// not answer.
Status SpilledIo::renewing(Status status) {
  if (status == Status::timed_out) pool_ = spill_.pool->open_io();
  return status;
}

Status SpilledIo::put(std::span<const Transfer> list, Deadline deadline) {
  for (const Transfer& transfer : list) {
    const std::span<const std::byte> bytes(transfer.local.adapter_data(), transfer.local.bytes());
    const Status status = status_of(spill_.file.put(transfer.offset, bytes, clock_of(deadline)));
    if (status != Status::done) return status;
  }
  return Status::done;
}

Status SpilledIo::take(std::span<const Transfer> list, Deadline deadline) {
  for (const Transfer& transfer : list) {
    const std::span<std::byte> into(transfer.local.adapter_data(), transfer.local.bytes());
    if (!spill_.file.take(transfer.offset, into, clock_of(deadline))) return Status::timed_out;
  }
  return Status::done;
}

// ---- To discard

Status SpilledIo::discard(std::uint64_t offset, std::uint64_t bytes, Deadline deadline) {
  const std::uint64_t end = std::min(offset + bytes, spill_.pool->bytes());
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t slab = at / spill_.slab_bytes;
    const std::uint64_t slab_begin = slab * spill_.slab_bytes;
    const std::uint64_t here = std::min(end, slab_begin + bytes_of(slab)) - at;
    Status status = status_of(spill_.file.clear(at, here, clock_of(deadline)));
    if (status == Status::done) {
      status = here == bytes_of(slab) ? discard_whole(slab, deadline)
                                      : at_slab(
                                            slab, deadline, [&] { return discard_pool(slab, at, here, deadline); },
                                            [] { return Status::done; });
    }
    if (status != Status::done) return status;
    at += here;
  }
  return Status::done;
}

Status SpilledIo::discard_whole(std::uint64_t slab, Deadline deadline) {
  if (!spill_.states.move(slab, clock_of(deadline))) return Status::timed_out;
  const Status status = discard_pool(slab, slab * spill_.slab_bytes, bytes_of(slab), deadline);
  const bool stays = status == Status::lost;  // at a node that does not answer
  if (status == Status::done || stays) spill_.states.set_in_file(slab, stays);
  spill_.states.end_move(slab);
  return stays ? Status::done : status;
}

// ---- Between pool and file

// Does nothing if another thread has seen to it. Afterwards nothing of the slab is in the pool, but at a node that does
// not answer: that is overwritten when the slab is brought back.
Status SpilledIo::leave_to_file(std::uint64_t slab, Deadline deadline) {
  if (!spill_.states.move(slab, clock_of(deadline))) return Status::timed_out;
  Status status = Status::done;
  if (!spill_.states.in_file(slab)) {
    status = discard_pool(slab, slab * spill_.slab_bytes, bytes_of(slab), deadline);
    if (status == Status::lost) status = Status::done;
    if (status == Status::done) spill_.states.set_in_file(slab, true);
  }
  spill_.states.end_move(slab);
  return status;
}

// If it is in the file alone, and there is room for it; now and then, by one I/O context, and not for long: the file
// can answer meanwhile.
void SpilledIo::bring_back(std::uint64_t slab, Deadline deadline) {
  if (!spill_.states.in_file(slab) || Clock::now() < spill_.next_try.load() || waits_for_unresponsive(slab)) return;
  const Deadline soon{std::min(deadline.at, spill_.pool->fabric().in(time_limits::kBringBack).at)};
  if (!spill_.states.move(slab, clock_of(soon))) return;
  if (spill_.states.in_file(slab)) {
    spill_.next_try = Clock::now() + 2 * time_limits::kBringBack;
    if (fill(slab, soon) == Status::done) {
      spill_.states.set_in_file(slab, false);
      spill_.next_try = Clock::time_point{};
    }
  }
  spill_.states.end_move(slab);
}

// Overwrites what the slab had in the pool, if an earlier attempt failed.
Status SpilledIo::fill(std::uint64_t slab, Deadline deadline) {
  const std::uint64_t begin = slab * spill_.slab_bytes;
  for (std::uint64_t done = 0; done < bytes_of(slab); done += kCarriedAtOnce) {
    const Transfer transfer{begin + done, {carried_.data(), std::min(kCarriedAtOnce, bytes_of(slab) - done)}};
    if (const Status taken = take({&transfer, 1}, deadline); taken != Status::done) return taken;
    const Status written = renewing(pool_->write({&transfer, 1}, deadline));
    if (written != Status::done) return written;
  }
  return Status::done;
}

}  // namespace farside::far
