#include "kv/mailbox/served_mailbox.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace farside::kv {

namespace {

MailboxSender::Ring signal_of(Channel& channel, const MailboxEnd& client, Waking waking) {
  if (waking == Waking::polled) return {};
  return [&channel, signal = client.other->word<ControlWord>(client.other_offset)](
             std::uint64_t number, Deadline deadline) { return channel.write_signal(signal, number, deadline); };
}

}  // namespace

ServedMailbox::ServedMailbox(Fabric& fabric, Channel& channel, const MailboxEnd& client, const MailboxShape& shape,
                             Waking waking, const ReplyTimeouts& timeouts, const MailboxRules& rules)
    : fabric_(fabric),
      shape_(shape),
      timeouts_(timeouts),
      sender_(fabric, channel, client, shape, signal_of(channel, client, waking), rules),
      receiver_(client, shape, rules) {}

// A parcel is taken only when it can be answered.
ServedMailbox::Came ServedMailbox::poll() {
  if (!is_sound_) return Came::end;
  if (!can_reply()) return is_sound_ ? Came::nothing : Came::end;
  if (missing_ == 0) incoming_ = Message();  // a request may be of 16 MiB, and its client idle from now on
  const auto parcel = set_aside_ ? std::exchange(set_aside_, std::nullopt) : receiver_.take();
  if (!parcel) return Came::nothing;
  if (owed_ != 0 && !is_request(*parcel)) {
    set_aside_ = parcel;
    return Came::nothing;
  }
  const Came came = take(*parcel);
  is_sound_ = is_sound_ && came != Came::end;
  owed_ += came == Came::request ? 1 : 0;
  return came;
}

// With it a request is whole.
bool ServedMailbox::is_request(const Parcel& parcel) {
  return parcel.head.rest == 0 && parcel.head.kind != ParcelHead::Kind::fetch;
}

bool ServedMailbox::unstick() {
  if (fabric_.now() < next_try_) return false;
  const Outcome ready = sender_.make_ready(fabric_.in(timeouts_.attempt));
  if (ready == Outcome::done) {
    stuck_since_.reset();
    return true;
  }
  const Time now = fabric_.now();
  if (!stuck_since_) stuck_since_ = now;
  // Exponential backoff; bounded, since a client that can take replies again waits for the next attempt.
  next_try_ =
      now + std::clamp<Duration>(now - *stuck_since_, timeouts_.between_attempts, timeouts_.most_between_attempts);
  is_sound_ = ready != Outcome::peer_lost && now - *stuck_since_ < timeouts_.give_up;
  return false;
}

ServedMailbox::Came ServedMailbox::take(const Parcel& parcel) {
  const auto [head, piece] = parcel;
  if (head.kind == ParcelHead::Kind::fetch) {
    if (partial_.empty()) return Came::end;
    if (send_piece(partial_.front())) partial_.pop_front();
    return Came::piece;
  }
  const bool begins = head.kind == ParcelHead::Kind::begin;
  if (begins) incoming_ = Message();
  if (begins && (piece.size() > kMaxMessageBytes || head.rest > kMaxMessageBytes - piece.size())) return Came::end;
  if (!begins && (head.kind != ParcelHead::Kind::go_on || piece.empty() || piece.size() > missing_ ||
                  head.rest != missing_ - piece.size())) {
    return Came::end;
  }
  missing_ = head.rest;
  if (begins && missing_ == 0) {
    request_ = piece;
    return Came::request;
  }
  incoming_.insert(incoming_.end(), piece.begin(), piece.end());
  request_ = incoming_;
  if (missing_ == 0) return Came::request;
  answer({ParcelHead::Kind::go_on, 0}, {});
  return Came::piece;
}

void ServedMailbox::reply(Message reply) {
  assert_that(owed_ != 0, "a reply answers a request");
  --owed_;
  Outgoing outgoing{std::move(reply)};
  if (send_piece(outgoing)) return;
  if (partial_.size() == shape_.slots) is_sound_ = false;  // no client has more of them
  partial_.push_back(std::move(outgoing));
}

// True when that was the end.
bool ServedMailbox::send_piece(Outgoing& outgoing) {
  const auto left = std::span<const std::byte>(outgoing.message).subspan(outgoing.sent);
  const auto piece = left.first(std::min<std::size_t>(left.size(), shape_.piece_bytes()));
  const auto kind = outgoing.sent == 0 ? ParcelHead::Kind::begin : ParcelHead::Kind::go_on;
  outgoing.sent += piece.size();
  answer({kind, left.size() - piece.size()}, piece);
  return piece.size() == left.size();
}

void ServedMailbox::answer(const ParcelHead& head, std::span<const std::byte> piece) {
  const Outcome sent = sender_.send(head, piece, fabric_.in(timeouts_.attempt));
  if (sent == Outcome::peer_lost) is_sound_ = false;  // after the other failures it is sent again
}

}  // namespace farside::kv
