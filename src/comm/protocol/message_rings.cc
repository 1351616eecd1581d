#include "comm/protocol/message_rings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "comm/protocol/lines.h"
#include "comm/time_limits.h"

namespace farside::comm {

using team::Rank;

// ---- Where things lie: the words a line each, by rank, then the rings.

std::uint64_t MessageRings::tail_offset(Rank sender) const { return kLineBytes * sender; }

std::uint64_t MessageRings::taken_offset(Rank receiver) const {
  return tail_offset(team_.size()) + kLineBytes * receiver;
}

std::uint64_t MessageRings::left_offset(Rank receiver) const {
  return taken_offset(team_.size()) + kLineBytes * receiver;
}

std::uint64_t MessageRings::record_offset(Rank sender, std::uint64_t number) const {
  const std::uint64_t place = std::uint64_t{sender} * shape_.places + number % shape_.places;
  return left_offset(team_.size()) + place * in_lines(sizeof(MessageHeader) + shape_.payload_bytes);
}

MessageRings::MessageRings(team::Team& team, const std::string& name, const Shape& shape, Ring ring,
                           const MessageRules& rules)
    : team_(team),
      rules_(rules),
      shape_(shape),
      ring_(std::move(ring)),
      memory_(team.allocate(name, record_offset(team.size(), 0))),
      outboxes_(team.size()),
      inboxes_(team.size()),
      payload_(payload_room(shape.payload_bytes)) {}

// ---- Into the outbox

Outcome MessageRings::leave(Rank to, MessageRecord record) {
  const MutexLock lock(mutex_);
  return put_in(to, record, std::size_t{shape_.places} + shape_.outbox);
}

Outcome MessageRings::send(Channel& channel, Rank to, MessageRecord record, Deadline deadline) {
  const std::array receiver{to};
  for (;;) {
    std::uint64_t next = 0;
    {
      const MutexLock lock(mutex_);
      const Outcome put = put_in(to, record, shape_.places);
      if (put != Outcome::timed_out) return put;
      next = outboxes_[to].sent + 1;
      ++outboxes_[to].sleepers;  // from now on, a thread that takes messages out announces it
    }
    const Outcome waited = channel.wait_until(
        memory_->local(), memory_->local().word<ControlWord>(left_offset(to)),
        [next](std::uint64_t left) { return left >= next; }, deadline, receiver);
    const MutexLock lock(mutex_);
    --outboxes_[to].sleepers;
    if (waited != Outcome::done) return waited;
  }
}

Outcome MessageRings::put_in(Rank to, MessageRecord& record, std::size_t places) {
  assert_that(to < outboxes_.size() && record.header.payload_bytes <= shape_.payload_bytes,
              "a message is for a rank of the team, and fits a place of its ring");
  Outbox& outbox = outboxes_[to];
  if (outbox.lost || !team_.alive(to)) return Outcome::peer_lost;
  if (outbox.waiting.size() >= places) return Outcome::timed_out;
  outbox.waiting.push_back(std::move(record));
  return Outcome::done;
}

// ---- From the outbox into the ring

Outcome MessageRings::carry(Channel& channel, Rank to) {
  Outbox& outbox = outboxes_[to];
  if (!take_turn(outbox)) return Outcome::done;
  Outcome outcome = Outcome::done;
  do {
    if (outcome == Outcome::done) outcome = tell_left(channel, outbox, to);  // what could not be told the last time
    while (outcome == Outcome::done && choose_leaving(outbox, to)) {
      outcome = write_leaving(channel, outbox, to);
      if (outcome != Outcome::done) break;
      note_left(outbox);
      outcome = tell_left(channel, outbox, to);
    }
  } while (!end_turn(outbox, outcome));
  return outcome;
}

void MessageRings::carry_all(Channel& channel) {
  for (Rank to = 0; to < team_.size(); ++to) (void)carry(channel, to);  // what is left over is tried the next time
}

bool MessageRings::take_turn(Outbox& outbox) {
  const MutexLock lock(mutex_);
  if (outbox.is_carried) {
    outbox.is_wanted_again = true;
    return false;
  }
  return outbox.is_carried = true;
}

// Returns false when another thread came since: perhaps with a message, perhaps because there is room.
bool MessageRings::end_turn(Outbox& outbox, Outcome outcome) {
  const MutexLock lock(mutex_);
  assert_that(outbox.is_carried, "a turn is ended by the thread that has taken it");
  const bool came = std::exchange(outbox.is_wanted_again, false);
  if (came && outcome == Outcome::done) return false;
  if (outcome == Outcome::peer_lost) {
    outbox.lost = true;
    outbox.waiting.clear();
    outbox.leaving.clear();
  }
  outbox.is_carried = false;
  return true;
}

// As many as have room, after those that did not get there the last time. Whether there are any.
bool MessageRings::choose_leaving(Outbox& outbox, Rank to) {
  const std::uint64_t taken = memory_->local().word<ControlWord>(taken_offset(to)).load();
  const MutexLock lock(mutex_);
  const std::uint64_t in_ring = outbox.sent - std::min(taken, outbox.sent);
  const std::uint64_t room =
      rules_.waits_for_room ? shape_.places - std::min<std::uint64_t>(in_ring, shape_.places) : shape_.places;
  while (outbox.leaving.size() < room && !outbox.waiting.empty()) {
    outbox.leaving.push_back(std::move(outbox.waiting.front()));
    outbox.waiting.pop_front();
  }
  return !outbox.leaving.empty();
}

Outcome MessageRings::write_leaving(Channel& channel, Outbox& outbox, Rank to) {
  const RemoteRegion& there = memory_->of(to);
  const std::uint64_t last = outbox.sent + outbox.leaving.size();
  const auto write_tail = [&] {
    return channel.write_signal(there.word<ControlWord>(tail_offset(team_.rank())), last,
                                team_.fabric().in(comm::time_limits::kStep));
  };
  if (!rules_.record_before_tail) (void)write_tail();
  Batch batch(channel);
  std::uint64_t number = outbox.sent;
  for (MessageRecord& record : outbox.leaving) {
    MessageHeader& header = record.header;
    header.number = ++number;
    header.check = check_of(header, std::span(record.payload).first(header.payload_bytes));
    const std::uint64_t offset = record_offset(team_.rank(), number);
    batch.write(there.span(offset, sizeof header), LocalSpan(header));
    if (record.payload.empty()) continue;
    batch.write(there.span(offset + sizeof header, record.payload.size()),
                LocalSpan(record.payload.data(), record.payload.size()));
  }
  Outcome outcome = batch.wait(team_.fabric().in(comm::time_limits::kStep));
  if (outcome == Outcome::done) outcome = write_tail();
  if (outcome == Outcome::done) outcome = ring_(channel, to, team_.fabric().in(comm::time_limits::kStep));
  // The next ones may come by another thread's channel, which nothing orders after this one's but a flush.
  if (outcome == Outcome::done && rules_.tail_before_next)
    outcome = channel.flush(to, team_.fabric().in(comm::time_limits::kStep));
  return outcome;
}

void MessageRings::note_left(Outbox& outbox) {
  const MutexLock lock(mutex_);
  outbox.sent += outbox.leaving.size();
  outbox.leaving.clear();
}

Outcome MessageRings::tell_left(Channel& channel, Outbox& outbox, Rank to) {
  std::uint64_t left = 0;
  {
    const MutexLock lock(mutex_);
    if (outbox.sleepers == 0 || outbox.told == outbox.sent) return Outcome::done;
    left = outbox.sent;
  }
  const auto word = memory_->of(team_.rank()).word<ControlWord>(left_offset(to));
  const Deadline deadline = team_.fabric().in(comm::time_limits::kStep);
  Outcome outcome = Outcome::link_lost;
  while (outcome == Outcome::link_lost) {
    outcome = channel.write_signal(word, left, deadline);
    if (outcome == Outcome::done && rules_.flushes_what_it_tells) outcome = channel.flush(team_.rank(), deadline);
  }
  if (outcome == Outcome::done) outbox.told = left;
  return outcome;
}

// ---- At the receiver

void MessageRings::receive(Channel& channel, const Deliver& deliver) {
  for (Rank source = 0; source < team_.size(); ++source) receive_from(channel, source, deliver);
}

void MessageRings::receive_from(Channel& channel, Rank source, const Deliver& deliver) {
  Inbox& inbox = inboxes_[source];
  give_back(channel, source);  // what could not be the last time
  const std::uint64_t tail = memory_->local().word<ControlWord>(tail_offset(source)).load();
  channel.local_fence();
  if (tail - inbox.taken > shape_.places) return refuse(source, "claims to have sent more than its ring holds");
  while (inbox.taken != tail) {
    const std::uint64_t number = inbox.taken + 1;
    if (!rules_.copies_before_giving_back) {
      inbox.taken = number;
      give_back(channel, source);
    }
    const auto [header, wrong] = copy_out(source, number);
    inbox.taken = number;
    give_back(channel, source);
    if (wrong.empty()) {
      deliver({source, header.handler, header.words, std::span(payload_).first(header.payload_bytes)});
    } else {
      refuse(source, wrong);
    }
  }
}

// Each byte once, and nothing of it is used before it was looked at. Says what is wrong with it.
MessageRings::Copied MessageRings::copy_out(Rank source, std::uint64_t number) {
  Copied copied;
  MessageHeader& header = copied.header;
  const std::uint64_t offset = record_offset(source, number);
  memory_->local().copy_out(offset, std::as_writable_bytes(std::span(&header, 1)));
  if (header.payload_bytes > shape_.payload_bytes) return {header, "sent more than a message may carry"};
  const std::span payload = std::span(payload_).first(payload_room(header.payload_bytes));
  memory_->local().copy_out(offset + sizeof header, payload);
  const bool whole = header.check == check_of(header, payload.first(header.payload_bytes));
  if (!whole || header.number != number) return {header, "sent what is no message"};
  if (header.handler >= shape_.handlers) return {header, "called a handler that does not exist"};
  return copied;
}

// Half a ring at a time. A sender that waits for room has filled the ring, so this rank passes a half before the
// ring is empty.
void MessageRings::give_back(Channel& channel, Rank source) {
  Inbox& inbox = inboxes_[source];
  const std::uint64_t due = inbox.taken - inbox.taken % std::max(1U, shape_.places / 2);
  assert_that(due >= inbox.given_back && due <= inbox.taken, "a place is given back once, when its message was taken");
  if (due == inbox.given_back) return;
  const auto word = memory_->of(source).word<ControlWord>(taken_offset(team_.rank()));
  Outcome outcome = channel.write_signal(word, due, team_.fabric().in(comm::time_limits::kStep));
  if (outcome == Outcome::done) outcome = ring_(channel, source, team_.fabric().in(comm::time_limits::kStep));
  // If the link were replaced later, the sender would wait for this room for ever.
  if (outcome == Outcome::done && rules_.flushes_what_it_tells) {
    outcome = channel.flush(source, team_.fabric().in(comm::time_limits::kStep));
  }
  if (outcome == Outcome::done) inbox.given_back = due;
}

void MessageRings::refuse(Rank source, std::string_view why) {
  {
    const MutexLock lock(mutex_);
    ++refused_;
  }
  log_.warn("messages: rank " + std::to_string(source) + " " + std::string(why));
}

std::uint64_t MessageRings::refused() const {
  const MutexLock lock(mutex_);
  return refused_;
}

}  // namespace farside::comm
