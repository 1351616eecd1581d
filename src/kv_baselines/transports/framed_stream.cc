#include "kv_baselines/transports/framed_stream.h"

#include <algorithm>
#include <cstring>

namespace farside::kv_baselines {

namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
constexpr std::size_t kReceivedAtOnce = std::size_t{64} << 10U;

}  // namespace

void FramedStream::send(std::span<const std::byte> message) {
  const auto length = static_cast<std::uint32_t>(message.size());
  if (!has_unsent()) {
    unsent_.clear();
    sent_ = 0;
  }
  const auto head = std::as_bytes(std::span(&length, 1));
  unsent_.insert(unsent_.end(), head.begin(), head.end());
  unsent_.insert(unsent_.end(), message.begin(), message.end());
  flush();
}

void FramedStream::flush() {
  while (has_unsent() && !lost_) {
    const Stream::Moved moved = stream_->write(std::span(unsent_).subspan(sent_));
    lost_ = !moved;
    if (!moved || *moved == 0) return;
    sent_ += *moved;
  }
}

bool FramedStream::receive(Deadline deadline) {
  if (lost_) return false;
  std::copy(received_.begin() + static_cast<std::ptrdiff_t>(taken_),
            received_.begin() + static_cast<std::ptrdiff_t>(end_), received_.begin());
  end_ -= taken_;
  taken_ = 0;
  if (received_.size() < end_ + kReceivedAtOnce) received_.resize(end_ + kReceivedAtOnce);
  const Stream::Moved moved = stream_->read(std::span(received_).subspan(end_), deadline);
  lost_ = !moved;
  end_ += moved.value_or(0);
  return moved.value_or(0) != 0;
}

std::optional<std::span<const std::byte>> FramedStream::take() {
  const auto left = std::span<const std::byte>(received_).subspan(taken_, end_ - taken_);
  if (left.size() < kLengthBytes || lost_) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, left.data(), sizeof length);
  lost_ = length > kv::kMaxMessageBytes;
  if (lost_ || left.size() - kLengthBytes < length) return std::nullopt;
  taken_ += kLengthBytes + length;
  return left.subspan(kLengthBytes, length);
}

}  // namespace farside::kv_baselines
