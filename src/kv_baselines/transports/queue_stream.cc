#include "kv_baselines/transports/queue_stream.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace farside::kv_baselines {

namespace {

// For what is posted over a link that is up.
constexpr Duration kStep = std::chrono::seconds(1);
// A thread that waits for room looks as often whether something has come instead.
constexpr Duration kLook = std::chrono::milliseconds(1);

}  // namespace

QueueStream::QueueStream(Fabric& fabric, Channel& channel, const kv::MailboxEnd& end, const kv::MailboxShape& shape)
    : fabric_(fabric), channel_(channel), end_(end), shape_(shape), words_(shape.slot_bytes) {
  shape_.check();
}

Stream::Moved QueueStream::read(std::span<std::byte> into, Deadline deadline) {
  const std::array peers{peer()};
  std::size_t read = 0;
  while (read < into.size()) {
    const std::uint64_t arrived = own(kArrived).load();
    if (arrived - taken_ > shape_.slots) return std::nullopt;
    if (arrived != taken_) {
      const Moved piece = copy_segment(into.subspan(read));
      if (!piece) return std::nullopt;
      read += *piece;
      continue;
    }
    if (read == 0 && fabric_.lost(peer())) return std::nullopt;
    if (read != 0 || deadline.at <= kAtOnce.at) break;
    const auto is_more = [this](std::uint64_t now) { return now != taken_; };
    const Outcome came = channel_.wait_until(*end_.own, own(kArrived), is_more, deadline, peers);
    if (came == Outcome::timed_out) break;
    if (came == Outcome::peer_lost) return std::nullopt;
  }
  return read;
}

// The peer is told of half a queue at a time.
Stream::Moved QueueStream::copy_segment(std::span<std::byte> into) {
  const std::uint64_t slot = end_.own_offset + shape_.slot_offset(taken_ + 1);
  const std::uint64_t length = end_.own->word<ControlWord>(slot).load();
  if (length <= copied_ || length > shape_.slot_bytes - kWord) return std::nullopt;
  const auto piece = into.first(std::min<std::size_t>(into.size(), length - copied_));
  end_.own->copy_out(slot + kWord + copied_, piece);
  copied_ += piece.size();
  if (copied_ < length) return piece.size();
  copied_ = 0;
  ++taken_;
  if (taken_ - told_ < (shape_.slots + 1) / 2) return piece.size();
  told_ = taken_;
  channel_.local_fence();  // what was copied, before its place is given away
  if (signal(kFreed, told_) != Outcome::done) return std::nullopt;
  return piece.size();
}

Stream::Moved QueueStream::write(std::span<const std::byte> bytes) {
  std::size_t written = 0;
  while (written < bytes.size()) {
    const std::uint64_t under_way = sent_ - own(kFreed).load();
    if (under_way > shape_.slots) return std::nullopt;
    if (under_way == shape_.slots) break;
    const std::size_t most = shape_.slot_bytes - kWord;
    const auto segment = bytes.subspan(written, std::min(bytes.size() - written, most));
    if (post(segment) != Outcome::done) return std::nullopt;
    written += segment.size();
  }
  if (written == 0 && fabric_.lost(peer())) return std::nullopt;
  return written;
}

Outcome QueueStream::post(std::span<const std::byte> segment) {
  const std::uint64_t length = segment.size();
  std::memcpy(words_.data(), &length, sizeof length);
  std::memcpy(words_.data() + kWord, segment.data(), segment.size());
  ++sent_;
  const RemoteSpan slot = end_.other->span(end_.other_offset + shape_.slot_offset(sent_), kWord + length);
  const Outcome outcome = channel_.write(slot, {words_.data(), slot.bytes}, fabric_.in(kStep));
  return outcome == Outcome::done ? signal(kArrived, sent_) : outcome;
}

Outcome QueueStream::signal(std::uint64_t word, std::uint64_t value) {
  const Deadline deadline = fabric_.in(kStep);
  const Outcome outcome = channel_.write_signal(other(word), value, deadline);
  if (outcome != Outcome::done || !end_.bell) return outcome;
  return channel_.add_signal(*end_.bell, 1, deadline).status;
}

void QueueStream::await_room(Deadline deadline) {
  const std::array peers{peer()};
  const std::uint64_t freed = own(kFreed).load();
  const Deadline soon{std::min(deadline.at, fabric_.now() + kLook)};
  const auto is_more = [freed](std::uint64_t now) { return now != freed; };
  (void)channel_.wait_until(*end_.own, own(kFreed), is_more, soon, peers);
}

}  // namespace farside::kv_baselines
