#include "kv/replication/shipping_journal.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "kv/replication/shipped_entry.h"

namespace farside::kv {

ShippingJournal::ShippingJournal(Fabric& fabric, Channel& channel, const Way& way, IsDead is_standby_dead,
                                 ReachAgain reach_again, const ReplicaRules& rules, const ShippingTimeouts& timeouts)
    : fabric_(fabric),
      channel_(channel),
      way_(way),
      ring_(ShippingRing::in(way.ring->bytes())),
      is_standby_dead_(std::move(is_standby_dead)),
      reach_again_(std::move(reach_again)),
      rules_(rules),
      timeouts_(timeouts) {}

void ShippingJournal::append(std::span<const std::byte> request, std::span<const TakenPlace> places) {
  if (is_alone_) return;
  Message entry;
  encode_shipped(places, {}, request, entry);
  stage(entry);
}

void ShippingJournal::append_gone(std::span<const GoneKey> keys) {
  if (is_alone_ || !rules_.tells_gone_keys) return;
  Message entry;
  encode_shipped({}, keys, {}, entry);
  stage(entry);
}

void ShippingJournal::stage(std::span<const std::byte> entry) {
  for (std::size_t done = 0; done < entry.size();) {
    const std::uint64_t position = flushed_ + staged_.size();
    const auto piece = entry.subspan(done, std::min<std::uint64_t>(ring_.most_piece(position), entry.size() - done));
    done += piece.size();
    ShippedFrameHead head{position, static_cast<std::uint32_t>(piece.size()),
                          static_cast<std::uint32_t>(entry.size() - done), 0};
    head.checksum = checksum_of(head, piece.data());
    const std::size_t at = staged_.size();
    staged_.resize(at + ShippedFrameHead::frame_bytes(piece.size()));
    std::memcpy(&staged_[at], &head, sizeof head);
    std::memcpy(&staged_[at + sizeof head], piece.data(), piece.size());
  }
}

// Each part that gets through of a value that is larger than the ring has its own time. What is written again has not.
bool ShippingJournal::sync() {
  const auto got_through = [this] { return most_written_ + flushed_ + taken_; };
  const auto timeout = [this] { return fabric_.in(std::max(timeouts_.sync, slice())); };
  std::uint64_t before = got_through();
  Deadline deadline = timeout();
  for (Backoff<Duration> backoff(kFirstPause, kMaxPause); !is_alone_ && !staged_.empty();) {
    const Came came = write_on({std::min(deadline.at, fabric_.in(slice()).at)});
    if (came != Came::nowhere) backoff.reset();
    if (got_through() != before) {
      before = got_through();
      deadline = timeout();
    }
    if (came != Came::nowhere) continue;
    if (is_standby_dead_()) {
      go_alone();
    } else if (fabric_.now() >= deadline.at) {
      return false;
    } else if (fabric_.lost(way_.ring->peer())) {
      mend();
    } else {
      fabric_.sleep(backoff.next());
    }
  }
  return true;
}

// In proportion to what may be under way: with too short a limit nothing is shipped over a slow network.
Duration ShippingJournal::slice() const {
  const std::uint64_t bytes = std::min<std::uint64_t>(staged_.size(), ring_.capacity);
  return timeouts_.slice * (1 + bytes / timeouts_.bytes_per_slice) * (1 << doublings_);
}

// Frames that were not flushed are written again, to the same places: so nothing is missing in between, and what may
// still arrive by the old connection is the same. New connections may break, one after the other, before anything gets
// through: so there are pauses.
void ShippingJournal::mend() {
  if (before_mending_ != Duration::zero()) fabric_.sleep(before_mending_);
  before_mending_ =
      std::clamp(2 * before_mending_, time_limits::kBetweenConnections, time_limits::kMaxBetweenConnections);
  if (is_standby_dead_()) return;
  if (const auto way = reach_again_()) way_ = *way;
}

ShippingJournal::Came ShippingJournal::write_on(Deadline deadline) {
  const std::uint64_t end = flushed_ + staged_.size();
  assert_that(flushed_ <= written_ && written_ <= end, "what is written but not flushed is staged");
  assert_that(taken_ <= flushed_ && written_ - taken_ <= ring_.capacity, "no more is written than the ring holds");
  if (written_ == end) return flush(deadline) ? Came::to_the_end : Came::nowhere;
  const std::uint64_t room = ring_.capacity - (written_ - taken_);
  if (room == 0) {
    const std::uint64_t taken = taken_;
    if (flush(deadline)) look_for_room(deadline);
    return taken == taken_ ? Came::nowhere : Came::on;
  }
  const std::uint64_t bytes = std::min({end - written_, room, ring_.until_end(written_)});
  std::uint64_t taken = 0;
  Batch batch(channel_);
  batch.write(way_.ring->span(ring_.offset(written_), bytes), {&staged_[written_ - flushed_], bytes});
  batch.read(LocalSpan(taken), way_.ring->span(ShippingRing::kTaken, sizeof taken));
  const Outcome written = batch.wait(deadline);
  if (written != Outcome::done) {
    go_back(written);
    return Came::nowhere;
  }
  written_ += bytes;
  most_written_ = std::max(most_written_, written_);
  if (rules_.looks_at_giving_up) note_taken(taken);
  return Came::on;
}

// A place of the ring is written to again only when nothing that was written there before can still arrive.
bool ShippingJournal::flush(Deadline deadline) {
  const bool is_new_way = before_mending_ != Duration::zero();
  const bool asks = rules_.answers_after_shipping && (rules_.flushes_the_new_way || !is_new_way);
  const Outcome flushed = asks ? channel_.flush(way_.ring->peer(), deadline) : Outcome::done;
  if (flushed != Outcome::done) {
    go_back(flushed);
    return false;
  }
  doublings_ = 0;
  before_mending_ = {};
  staged_.erase(staged_.begin(), staged_.begin() + static_cast<std::ptrdiff_t>(written_ - flushed_));
  flushed_ = written_;
  return true;
}

// The same bytes in the same place are as one.
void ShippingJournal::go_back(Outcome failed) {
  if (rules_.writes_again) written_ = flushed_;
  if (failed == Outcome::timed_out) doublings_ = std::min(doublings_ + 1, kMaxDoublings);
}

void ShippingJournal::look_for_room(Deadline deadline) {
  const Result<std::uint64_t> taken = channel_.load(way_.ring->word<ControlWord>(ShippingRing::kTaken), deadline);
  if (!taken.done()) return;
  note_taken(taken.value);
  const bool is_half_full = flushed_ - taken_ > ring_.capacity / 2;
  if (is_half_full && way_.bell) (void)channel_.add_signal(*way_.bell, 1, deadline);  // it looks anyway, later
}

void ShippingJournal::note_taken(std::uint64_t word) {
  if (word == ShippingRing::kGivenUp) {
    standby_gave_up_ = true;
    return go_alone();
  }
  // The standby may be ahead of what was flushed, even of what was written: the rest of a frame may be what its place
  // has held before. A place is free when in addition what was written there before has arrived.
  if (word <= flushed_ + staged_.size()) taken_ = std::max(taken_, std::min(word, flushed_));
}

bool ShippingJournal::step() {
  if (is_alone_) return false;
  if (is_standby_dead_()) {
    go_alone();
  } else if (rules_.looks_at_giving_up && fabric_.now() >= next_look_ && !fabric_.lost(way_.ring->peer())) {
    look_at_the_standby();
  }
  return false;
}

void ShippingJournal::look_at_the_standby() {
  const Result<std::uint64_t> taken =
      channel_.load(way_.ring->word<ControlWord>(ShippingRing::kTaken), fabric_.in(timeouts_.look));
  if (taken.done()) between_looks_.reset();
  next_look_ = fabric_.in(between_looks_.next()).at;
  if (taken.done()) note_taken(taken.value);
}

void ShippingJournal::go_alone() {
  is_alone_ = true;
  staged_ = {};
}

}  // namespace farside::kv
