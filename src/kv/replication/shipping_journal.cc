#include "kv/replication/shipping_journal.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace farside::kv {

ShippingJournal::ShippingJournal(Fabric& fabric, Channel& channel, const std::optional<Way>& way,
                                 IsDead is_standby_dead, ReachAgain reach_again, const ReplicaRules& rules,
                                 const ShippingSettings& settings)
    : fabric_(fabric),
      channel_(channel),
      is_standby_dead_(std::move(is_standby_dead)),
      reach_again_(std::move(reach_again)),
      rules_(rules),
      settings_(settings),
      degraded_since_(fabric.now()) {
  if (!way) return;
  way_ = *way;
  ring_ = ShippingRing::in(way->ring->bytes());
  standing_ = Standing::full;
}

void ShippingJournal::append(std::span<const std::byte> request, std::span<const TakenPlace> places) {
  stage(ShippedPart::change, places, {}, request);
}

void ShippingJournal::append_gone(std::span<const GoneKey> keys) {
  if (rules_.tells_gone_keys) stage(ShippedPart::change, {}, keys, {});
}

void ShippingJournal::stage(ShippedPart part, std::span<const TakenPlace> places, std::span<const GoneKey> gone,
                            std::span<const std::byte> request) {
  if (standing_ == Standing::alone) return;
  Message entry;
  encode_shipped(part, places, gone, request, entry);
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
    const std::span frame = staged_.append(ShippedFrameHead::frame_bytes(piece.size()));
    std::memcpy(frame.data(), &head, sizeof head);
    std::memcpy(&frame[sizeof head], piece.data(), piece.size());
  }
}

// Each part that gets through of a value that is larger than the ring has its own time. What is written again has not.
bool ShippingJournal::sync() {
  if (standing_ == Standing::taught) return true;
  const auto timeout = [this] { return fabric_.in(std::max(settings_.sync, slice())); };
  std::uint64_t before = progress();
  Deadline deadline = timeout();
  for (Backoff<Duration> backoff(kFirstPause, kMaxPause); standing_ == Standing::full && !staged_.empty();) {
    const Came came = write_on({std::min(deadline.at, fabric_.in(slice()).at)});
    if (came != Came::nowhere) backoff.reset();
    if (progress() != before) {
      before = progress();
      deadline = timeout();
    }
    if (came == Came::nowhere && !bear_with_standby(deadline, backoff)) return false;
  }
  return true;
}

bool ShippingJournal::bear_with_standby(Deadline deadline, Backoff<Duration>& backoff) {
  if (is_standby_dead_()) {
    go_alone();
  } else if (fabric_.now() >= deadline.at) {
    return false;
  } else if (fabric_.lost(way_.ring->peer())) {
    reconnect();
  } else {
    fabric_.sleep(backoff.next());
  }
  return true;
}

bool ShippingJournal::await_taking() {
  if (!settings_.awaits_taking || !rules_.awaits_taking || standing_ != Standing::full || taken_ == flushed_)
    return true;
  std::uint64_t before = taken_;
  Deadline deadline = fabric_.in(settings_.sync);
  if (way_.bell) (void)channel_.add_signal(*way_.bell, 1, deadline);  // it looks anyway, later
  for (Backoff<Duration> backoff(kFirstPause, kMaxPause); standing_ == Standing::full && taken_ != flushed_;) {
    look_for_room({std::min(deadline.at, fabric_.in(slice()).at)});
    if (taken_ != before) {
      before = taken_;
      deadline = fabric_.in(settings_.sync);
      backoff.reset();
    } else if (!bear_with_standby(deadline, backoff)) {
      return false;
    }
  }
  return true;
}

// In proportion to what may be under way: with too short a limit nothing is shipped over a slow network.
Duration ShippingJournal::slice() const {
  const std::uint64_t bytes = std::min<std::uint64_t>(staged_.size(), ring_.capacity);
  return settings_.slice * (1 + bytes / settings_.bytes_per_slice) * (1 << doublings_);
}

// Frames that were not flushed are written again, to the same places: so nothing is missing in between, and what may
// still arrive by the old connection is the same. New connections may break, one after the other, before anything gets
// through: so there are pauses.
void ShippingJournal::reconnect() {
  if (reconnect_backoff_ != Duration::zero()) fabric_.sleep(reconnect_backoff_);
  reconnect_backoff_ =
      std::clamp(2 * reconnect_backoff_, time_limits::kBetweenConnections, time_limits::kMaxBetweenConnections);
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
  const std::uint64_t most = standing_ == Standing::taught ? kMaxCopiedAhead : ring_.capacity;
  const std::uint64_t bytes = std::min({end - written_, room, ring_.until_end(written_), most});
  std::uint64_t taken = 0;
  Batch batch(channel_);
  batch.write(way_.ring->span(ring_.offset(written_), bytes), {&staged_.span()[written_ - flushed_], bytes});
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
  const bool is_new_way = reconnect_backoff_ != Duration::zero();
  const bool asks = rules_.answers_after_shipping && (rules_.flushes_the_new_way || !is_new_way);
  const Outcome flushed = asks ? channel_.flush(way_.ring->peer(), deadline) : Outcome::done;
  if (flushed != Outcome::done) {
    go_back(flushed);
    return false;
  }
  doublings_ = 0;
  reconnect_backoff_ = {};
  staged_.drop_front(written_ - flushed_);
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
  if (standing_ == Standing::alone) return false;
  if (is_standby_dead_()) {
    go_alone();
  } else if (standing_ == Standing::taught) {
    return teach_on();
  } else if (!staged_.empty()) {
    (void)sync();  // the end of a lesson, which no client waits for
  } else if (rules_.looks_at_giving_up && fabric_.now() >= next_look_ && !fabric_.lost(way_.ring->peer())) {
    look_at_the_standby();
  }
  return false;
}

void ShippingJournal::look_at_the_standby() {
  const Result<std::uint64_t> taken =
      channel_.load(way_.ring->word<ControlWord>(ShippingRing::kTaken), fabric_.in(settings_.look));
  if (taken.done()) between_looks_.reset();
  next_look_ = fabric_.in(between_looks_.next()).at;
  if (taken.done()) note_taken(taken.value);
}

void ShippingJournal::go_alone() {
  if (standing() == Standing::full) degraded_since_ = fabric_.now();
  standing_ = Standing::alone;
  staged_ = {};
  copy_.reset();
}

MemoryUse ShippingJournal::with_state(MemoryUse use) const {
  if (standing() == Standing::full) {
    use.copies = Copies::both;
    return use;
  }
  use.copies = standing_ == Standing::alone ? Copies::one : Copies::copying;
  if (use.copies == Copies::copying)
    use.copied_permille = std::min<std::uint16_t>(copy_ ? copy_->permille() : 999, 999);
  const auto since = std::chrono::duration_cast<std::chrono::seconds>(fabric_.now() - degraded_since_);
  use.degraded_s = static_cast<std::uint32_t>(since.count());
  return use;
}

// ---- Teaching

void ShippingJournal::teach(const Way& way, const Store& store, std::uint64_t epoch, RetractAlone retract,
                            std::uint64_t store_number) {
  assert_that(standing_ == Standing::alone, "a server has one standby at a time");
  way_ = way;
  ring_ = ShippingRing::in(way.ring->bytes());
  flushed_ = written_ = most_written_ = taken_ = full_from_ = 0;
  doublings_ = 0;
  reconnect_backoff_ = {};
  standby_gave_up_ = false;
  standing_ = Standing::taught;
  store_ = &store;
  epoch_ = epoch;
  retract_ = std::move(retract);
  give_up_at_ = fabric_.in(settings_.sync).at;
  next_lesson_ = fabric_.now();
  copy_.emplace(store, [this](StoreCopy::Part part, const Request& request, std::span<const TakenPlace> places) {
    stage(part == StoreCopy::Part::version ? ShippedPart::version : ShippedPart::change, places, {}, request.encode());
  });
  standby_has_disk_ = store_number != 0;
  if (standby_has_disk_) {
    const Request begin{.kind = RequestKind::use, .session = store_number, .settled = epoch};
    stage(ShippedPart::begin_of_copy, {}, {}, begin.encode());
  }
  copy_->begin();
}

bool ShippingJournal::teach_on() {
  const std::uint64_t staged_before = staged_.size();
  int walks = 0;
  for (; copy_ && walks < kWalksAtOnce && staged_.size() < kMaxCopiedAhead; ++walks) {
    if (!copy_->go_on(kCopiedAtOnce)) copy_.reset();
  }
  const bool is_lost = fabric_.lost(way_.ring->peer());  // it is met again, by whatever process is there then
  if (is_lost || staged_before > kMaxBehind) {
    go_alone();
    return false;
  }
  if (fabric_.now() < next_lesson_) return false;
  const bool is_on = ship_some();
  if (standing_ != Standing::taught) return false;
  if (is_on || walks != 0) give_up_at_ = std::max(fabric_.now(), next_lesson_) + settings_.sync;
  if (fabric_.now() >= give_up_at_) {
    go_alone();
    return false;
  }
  // All that is staged by now comes before the end: under steady changes there is always something.
  if (!copy_ && staged_.size() <= kMaxCopiedAhead) finish_lesson();
  return is_on || copy_.has_value();
}

// Returns whether anything got through. Attempts that do not leave clients most of the time.
bool ShippingJournal::ship_some() {
  const std::uint64_t before = progress();
  const std::uint64_t written_before = written_;
  const Time begin = fabric_.now();
  const Deadline deadline{begin + settings_.lesson * (1 << doublings_)};
  Came came = write_on(deadline);
  if (came == Came::on && standing_ == Standing::taught && !flush(deadline)) came = Came::nowhere;
  if (came == Came::nowhere) {
    next_lesson_ = fabric_.now() + kRestsAfterLesson * (fabric_.now() - begin);
  } else if (settings_.bytes_per_second != 0) {  // time that was slept through is made up for
    const std::uint64_t ns = (written_ - written_before) * 1'000'000'000 / settings_.bytes_per_second;
    next_lesson_ = std::max(next_lesson_, begin + -kMadeUpFor) + Duration(static_cast<std::int64_t>(ns));
  }
  return progress() != before;
}

// The standby's disk says that a copy was begun: without one it would not be known, when both are started again,
// whether it has lost what it had.
bool ShippingJournal::has_been_taken_from() {
  if (taken_ == 0 && flushed_ != 0) look_for_room(fabric_.in(settings_.lesson));
  if (taken_ == 0) next_lesson_ = fabric_.in(kMaxPause).at;
  return standing_ == Standing::taught && taken_ != 0;
}

// From here on nothing is answered before it is shipped: the standby is full when it finds this, and may be promoted.
void ShippingJournal::finish_lesson() {
  if (standby_has_disk_ && !has_been_taken_from()) return;
  if (rules_.retracts_alone && !retract_()) return;
  const Store::Forgotten forgotten = store_->all_forgotten();
  Request end{.kind = RequestKind::use, .session = epoch_, .settled = forgotten.sessions, .timestamp = forgotten.keys};
  stage(ShippedPart::end_of_copy, {}, {}, end.encode());
  full_from_ = flushed_ + staged_.size();
  standing_ = Standing::full;
}

}  // namespace farside::kv
