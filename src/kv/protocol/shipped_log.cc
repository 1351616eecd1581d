#include "kv/protocol/shipped_log.h"

#include "kv/protocol/messages.h"
#include "kv/protocol/replay.h"

namespace farside::kv {

bool ShippedLog::take_some() {
  unsigned frames = 0;
  while (is_sound_ && frames < kFramesAtOnce && take_frame()) ++frames;
  if (frames == 0) return false;
  channel_.local_fence();  // it was copied before its place is given back
  region_.word<ControlWord>(ShippingRing::kTaken).store(is_sound_ ? position_ : ShippingRing::kGivenUp);
  return true;
}

bool ShippedLog::take_frame() {
  ShippedFrameHead head{};
  const std::uint64_t at = ring_.offset(position_);
  region_.copy_out(at, std::as_writable_bytes(std::span(&head, 1)));
  if (head.position != position_ || head.bytes > ring_.most_piece(position_)) return false;
  piece_.resize(ShippedFrameHead::frame_bytes(head.bytes) - sizeof head);
  region_.copy_out(at + sizeof head, piece_);
  piece_.resize(head.bytes);
  if (checksum_of(head, piece_.data()) != head.checksum) return false;  // it is arriving
  position_ += ShippedFrameHead::frame_bytes(head.bytes);
  entry_.insert(entry_.end(), piece_.begin(), piece_.end());
  is_sound_ = entry_.size() + head.rest <= kMostMessageBytes;
  if (head.rest != 0 || !is_sound_) return true;
  is_sound_ = carry_out();
  entry_.clear();
  return true;
}

bool ShippedLog::carry_out() {
  const auto change = Request::decode(entry_);
  return change && replay(store_, *change) == Answer::done;
}

}  // namespace farside::kv
