// framed_stream.h — messages over a stream, each behind its length in 4 bytes.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kv/protocol/requests.h"
#include "kv_baselines/transports/stream.h"

namespace farside::kv_baselines {

class FramedStream {
 public:
  explicit FramedStream(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  /// The peer is lost, or has announced a message of more than kMaxMessageBytes. Nothing moves any more.
  [[nodiscard]] bool is_lost() const noexcept { return lost_; }
  /// The peer speaks another protocol.
  void give_up() noexcept { lost_ = true; }

  /// Sends what goes at once, and keeps the rest.
  void send(std::span<const std::byte> message);
  void flush();
  [[nodiscard]] bool has_unsent() const noexcept { return sent_ < unsent_.size(); }
  void await_room(Deadline deadline) { stream_->await_room(deadline); }

  /// Takes in what has come, waiting for it until `deadline`. True if anything did.
  bool receive(Deadline deadline);
  /// The next message of what was received, if it is whole. Valid until the next call of receive.
  [[nodiscard]] std::optional<std::span<const std::byte>> take();

 private:
  std::unique_ptr<Stream> stream_;
  kv::Message unsent_;  // the first `sent_` bytes of it are sent
  std::size_t sent_ = 0;
  kv::Message received_;  // of `end_` bytes, the first `taken_` are taken
  std::size_t taken_ = 0;
  std::size_t end_ = 0;
  bool lost_ = false;
};

}  // namespace farside::kv_baselines
