// queue_stream.h — send and receive: two-sided messages as a NIC offers them. The fabric has one-sided operations
// alone, so they are made of these, and cost what they must: a copy into a buffer that the receiver has posted, a
// completion that wakes it, a copy out, and now and then word that buffers are posted again.
//
//   own memory   0       ControlWord   arrived: segments that the peer has sent
//                8       ControlWord   freed: of the segments sent to the peer, how many buffers it has posted again
//                64      slots         segment n lies in slot n mod slots; the first is number 1
//   slot         0       8 bytes       how long the segment is
//                8                     the segment
//
// Both words are written by the peer. `arrived` is a signal: a reader that sees n there finds segment n whole.
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/mailbox/mailbox_ring.h"
#include "kv/protocol/requests.h"
#include "kv_baselines/transports/stream.h"

namespace farside::kv_baselines {

class QueueStream final : public Stream {
 public:
  /// `end.bell`: that of a server, which awaits all its clients at once.
  QueueStream(Fabric& fabric, Channel& channel, const kv::MailboxEnd& end, const kv::MailboxShape& shape);

  [[nodiscard]] Moved read(std::span<std::byte> into, Deadline deadline) override;
  [[nodiscard]] Moved write(std::span<const std::byte> bytes) override;
  void await_room(Deadline deadline) override;

 private:
  static constexpr std::uint64_t kArrived = 0;
  static constexpr std::uint64_t kFreed = 8;
  static constexpr std::uint64_t kWord = 8;

  [[nodiscard]] PeerId peer() const { return end_.other->peer(); }
  [[nodiscard]] LocalWord<ControlWord> own(std::uint64_t offset) const {
    return end_.own->word<ControlWord>(end_.own_offset + offset);
  }
  [[nodiscard]] RemoteWord<ControlWord> other(std::uint64_t offset) const {
    return end_.other->word<ControlWord>(end_.other_offset + offset);
  }
  [[nodiscard]] Moved copy_segment(std::span<std::byte> into);
  [[nodiscard]] Outcome post(std::span<const std::byte> segment);
  [[nodiscard]] Outcome signal(std::uint64_t word, std::uint64_t value);

  Fabric& fabric_;
  Channel& channel_;
  const kv::MailboxEnd end_;
  const kv::MailboxShape shape_;
  kv::Message words_;  // of the segment that is sent
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;   // segments of which everything was read
  std::uint64_t told_ = 0;    // of them, those that the peer was told of
  std::uint64_t copied_ = 0;  // bytes of the next one
};

}  // namespace farside::kv_baselines
