#include "kv/mailbox/mailbox_ring.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "farside/base/error.h"
#include "farside/base/rounding.h"

#include "base/assert.h"
#include "base/backoff.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace farside::kv {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kBeforeBody = 2 * kWord;  // header, indicator
constexpr unsigned kKindShift = 56;               // beside it, the rest
constexpr unsigned kSequenceShift = 32;           // beside it, the body's bytes

// A parcel whose beginning is there is there within moments, unless its sender was stopped just then.
constexpr unsigned kLooks = 50;
constexpr Duration kFirstPause = 10us;
constexpr Duration kMaxPause = 1ms;

std::uint64_t in_words(std::uint64_t bytes) { return round_up(bytes, kWord); }

std::uint64_t indicator_of(std::uint64_t header) { return XXH3_64bits(&header, sizeof header); }

std::uint64_t indicator_of(std::span<const std::byte> body, std::uint64_t header, const MailboxRules& rules) {
  return XXH3_64bits_withSeed(body.data(), body.size(), rules.indicators_name_sequences ? header : 0);
}

}  // namespace

std::uint64_t MailboxShape::piece_bytes() const { return slot_bytes - kBeforeBody - 2 * kWord; }

void MailboxShape::check() const {
  if (slots > 0 && slot_bytes % kWord == 0 && slot_bytes > kBeforeBody + 2 * kWord) return;
  throw UsageError({"lay out a mailbox", std::to_string(slots) + " slots of " + std::to_string(slot_bytes) + " bytes",
                    "nothing fits", "have at least 1 slot of 40 bytes, and whole words"});
}

// ---- Sending

MailboxSender::MailboxSender(Fabric& fabric, Channel& channel, const MailboxEnd& end, const MailboxShape& shape,
                             Ring ring, const MailboxRules& rules)
    : fabric_(fabric), channel_(channel), end_(end), shape_(shape), ring_(std::move(ring)), rules_(rules) {
  shape_.check();
}

// A late second store of the slot's last parcel must not hit the next one. One fence does for a round of the ring.
bool MailboxSender::is_fenced() const { return number_ < fenced_ + shape_.slots || !rules_.fences_slots; }

// A link that is replaced is reported once by a flush, a fence and a signal, also where another user of this channel
// waited too long, and long ago: that is no reason to give up.
template <class Attempt>
Outcome MailboxSender::try_until(Deadline deadline, Attempt attempt) {
  for (;;) {
    const Outcome outcome = attempt();
    const bool may_be_tried_again = outcome == Outcome::timed_out || outcome == Outcome::link_lost;
    if (!may_be_tried_again || !rules_.tries_again) return outcome;
    if (fabric_.now() >= deadline.at) return Outcome::timed_out;
  }
}

Outcome MailboxSender::make_ready(Deadline deadline) {
  if (stuck_) {
    if (const Outcome written = write(deadline); written != Outcome::done) return written;
  }
  if (is_fenced()) return Outcome::done;
  const Outcome fenced = try_until(deadline, [&] { return channel_.fence(end_.other->peer(), deadline); });
  if (fenced == Outcome::done) fenced_ = number_;
  return fenced;
}

Outcome MailboxSender::send(const ParcelHead& head, std::span<const std::byte> piece, Deadline deadline) {
  assert_that(is_ready(), "a parcel is sent when the parcel before is on its way, and its slot is fenced");
  assert_that(piece.size() <= shape_.piece_bytes(), "a piece fits into a slot");
  assert_that(head.rest >> kKindShift == 0, "the rest of a message fits beside the kind");
  const std::uint64_t body_bytes = kWord + piece.size();
  const std::uint64_t last = (kBeforeBody + in_words(body_bytes)) / kWord;
  words_.resize(last + 1);
  const std::uint64_t header = ++number_ << kSequenceShift | body_bytes;
  words_[0] = header;
  words_[1] = indicator_of(header);
  words_[2] = static_cast<std::uint64_t>(head.kind) << kKindShift | head.rest;
  if (!piece.empty()) words_[last - 1] = 0;  // which the end of the piece may not fill
  if (!piece.empty()) std::memcpy(&words_[(kBeforeBody + kWord) / kWord], piece.data(), piece.size());
  words_[last] = indicator_of(std::as_bytes(std::span(words_)).subspan(kBeforeBody, body_bytes), header, rules_);
  bytes_ = (last + 1) * kWord;
  return write(deadline);
}

// The same bytes any number of times are as one.
Outcome MailboxSender::write(Deadline deadline) {
  const RemoteSpan slot = end_.other->span(end_.other_offset + shape_.slot_offset(number_), bytes_);
  const Outcome outcome = try_until(deadline, [&] {
    const Outcome written = channel_.write(slot, LocalSpan(words_.data(), bytes_), deadline);
    if (written != Outcome::done) return written;
    const Outcome rung = ring_ ? ring_(number_, deadline) : Outcome::done;
    // A transport may keep a small WRITE until it is asked; and a signal that completed may be lost with its link.
    return rung != Outcome::done || end_.by_memory ? rung : channel_.flush(end_.other->peer(), deadline);
  });
  stuck_ = outcome != Outcome::done;
  return outcome;
}

// ---- Receiving

MailboxReceiver::MailboxReceiver(const MailboxEnd& end, const MailboxShape& shape, const MailboxRules& rules)
    : end_(end), shape_(shape), rules_(rules) {
  shape_.check();
}

bool MailboxReceiver::begins_to_arrive(std::uint64_t header) const {
  return header >> kSequenceShift == static_cast<std::uint32_t>(next_);
}

std::optional<Parcel> MailboxReceiver::take() {
  const std::uint64_t slot = end_.own_offset + shape_.slot_offset(next_);
  const std::uint64_t header = end_.own->word<ControlWord>(slot).load();
  if (!begins_to_arrive(header)) return std::nullopt;
  // Before the header is known to be whole, its length is not believed.
  if (end_.own->word<ControlWord>(slot + kWord).load() != indicator_of(header)) return std::nullopt;
  const auto body_bytes = static_cast<std::uint32_t>(header);
  const std::uint64_t indicator_at = in_words(body_bytes);
  const std::uint64_t taken_bytes = indicator_at + kWord;
  if (body_bytes < kWord || taken_bytes > shape_.slot_bytes - kBeforeBody) return std::nullopt;  // no sender's

  if (body_.size() < taken_bytes) body_.resize(taken_bytes);  // as large as what comes: servers have thousands
  end_.own->copy_out(slot + kBeforeBody, std::span(body_).first(taken_bytes));
  const auto body = std::span<const std::byte>(body_).first(body_bytes);
  std::uint64_t indicator = 0;
  std::memcpy(&indicator, body_.data() + indicator_at, sizeof indicator);
  if (rules_.looks_at_second_indicator && indicator != indicator_of(body, header, rules_)) return std::nullopt;
  ++next_;
  std::uint64_t head = 0;
  std::memcpy(&head, body.data(), sizeof head);
  const std::uint64_t rest = head & ((std::uint64_t{1} << kKindShift) - 1);
  return Parcel{{static_cast<ParcelHead::Kind>(head >> kKindShift), rest}, body.subspan(kWord)};
}

Result<Parcel> MailboxReceiver::await(Fabric& fabric, Channel& channel, Waking waking, Deadline deadline) {
  const std::array peer{end_.other->peer()};
  const std::uint64_t at = waking == Waking::doorbell ? end_.own_offset : end_.own_offset + shape_.slot_offset(next_);
  const auto word = end_.own->word<ControlWord>(at);
  Backoff<Duration> backoff(kFirstPause, kMaxPause);
  for (unsigned look = 0;; ++look) {
    const std::uint64_t seen = word.load();
    if (const auto parcel = take()) return {Outcome::done, *parcel};
    if (waking == Waking::polled && begins_to_arrive(seen)) {  // no single word says when the others are there
      if (fabric.lost(peer[0])) return {Outcome::peer_lost, {}};
      if (fabric.now() >= deadline.at) return {Outcome::timed_out, {}};
      if (look < kLooks) continue;
      fabric.sleep(backoff.next());
      continue;
    }
    const Outcome waited = channel.wait_until(
        *end_.own, word, [seen](std::uint64_t now) { return now != seen; }, deadline, peer);
    if (waited != Outcome::done) return {waited, {}};
  }
}

}  // namespace farside::kv
