// mailbox_ring.h — one direction of a mailbox: parcels, written by RDMA WRITE into slots of the receiver's memory and
// found there by looking (docs/protocols/kv.md, "Mailboxes"; after figure 2 of RAMP over RDMA).
//
//   0       ControlWord   signal: written after a parcel to a client that sleeps
//   64      slots         parcel n lies in slot n mod slots; the first is number 1
//
//   slot    0         8           16            24      24 + piece, up to a whole word
//           | header  | indicator | kind, rest  | piece | indicator |
//             sequence 32, body bytes 32          the body is kind, rest and piece
//
// A parcel counts as arrived when the first indicator is the hash of its header, the second one that of its body
// seeded with the header, and the header has the sequence that is expected: then it matters neither in which order the
// words came nor what of the slot's last parcel is still there.
//
// Guarantee: parcels are taken once each, whole, in the order in which they were sent.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "farside/fabric/fabric.h"
#include "farside/kv/types.h"

#include "kv/protocol/rules.h"

namespace farside::kv {

/// The same at both ends.
struct MailboxShape {
  std::uint32_t slots = 8;                ///< parcels under way in one direction
  std::uint32_t slot_bytes = 32U << 10U;  ///< whole words

  /// The bytes of one direction.
  [[nodiscard]] std::uint64_t ring_bytes() const { return slot_offset(0) + std::uint64_t{slots} * slot_bytes; }
  [[nodiscard]] std::uint64_t slot_offset(std::uint64_t number) const { return 64 + number % slots * slot_bytes; }
  /// The most of a message that goes in one parcel.
  [[nodiscard]] std::uint64_t piece_bytes() const;
  /// Throws UsageError when nothing fits.
  void check() const;
};

/// The places of the two rings of a connection, seen from one side.
struct MailboxEnd {
  const Region* own;  ///< what comes in
  std::uint64_t own_offset;
  const RemoteRegion* other;  ///< what goes out
  std::uint64_t other_offset;
  /// Fabric::reaches_by_memory: what was written there arrives by itself. Elsewhere it is flushed.
  bool by_memory = false;
  /// A client's, when it chose to be woken: what wakes its server.
  std::optional<RemoteWord<AtomicWord>> bell{};
};

struct ParcelHead {
  enum class Kind : std::uint8_t {
    begin,  ///< of a message; one that was not finished is dropped
    go_on,  ///< more of it; from a server, the answer to what is not the end of a message
    fetch,  ///< from a client: more of the oldest reply that did not end
  };
  Kind kind = Kind::begin;
  std::uint64_t rest = 0;  ///< bytes of the message that come after this parcel
};

struct Parcel {
  ParcelHead head;
  std::span<const std::byte> piece;  ///< until the next one is taken
};

class MailboxSender {
 public:
  /// Wakes the receiver of parcel `number`; whatever was written before is visible there then.
  using Ring = std::function<Outcome(std::uint64_t number, Deadline)>;

  MailboxSender(Fabric& fabric, Channel& channel, const MailboxEnd& end, const MailboxShape& shape, Ring ring,
                const MailboxRules& rules);

  /// Parcels that were sent are on their way, and the next one may be sent as far as this side knows. (The answer to
  /// its slot's last parcel has told that it was taken.)
  [[nodiscard]] bool is_ready() const { return !stuck_ && is_fenced(); }
  Outcome make_ready(Deadline deadline);
  /// When it is ready. After timed_out the parcel is on its way all the same, when make_ready says so.
  Outcome send(const ParcelHead& head, std::span<const std::byte> piece, Deadline deadline);

 private:
  [[nodiscard]] bool is_fenced() const;
  Outcome write(Deadline deadline);
  template <class Attempt>
  Outcome try_until(Deadline deadline, Attempt attempt);

  Fabric& fabric_;
  Channel& channel_;
  const MailboxEnd end_;
  const MailboxShape shape_;
  const Ring ring_;
  const MailboxRules rules_;
  std::vector<std::uint64_t> words_;  ///< the last parcel
  std::uint64_t bytes_ = 0;           ///< of it
  std::uint64_t number_ = 0;          ///< of it
  std::uint64_t fenced_ = 0;          ///< parcels up to this one land before anything that is posted now
  bool stuck_ = false;                ///< it may not be on its way
};

class MailboxReceiver {
 public:
  MailboxReceiver(const MailboxEnd& end, const MailboxShape& shape, const MailboxRules& rules);

  /// The next parcel, if it is there.
  [[nodiscard]] std::optional<Parcel> take();
  /// The same, waiting for it.
  Result<Parcel> await(Fabric& fabric, Channel& channel, Waking waking, Deadline deadline);

 private:
  [[nodiscard]] bool begins_to_arrive(std::uint64_t header) const;

  const MailboxEnd end_;
  const MailboxShape shape_;
  const MailboxRules rules_;
  std::vector<std::byte> body_;  ///< and the indicator
  std::uint64_t next_ = 1;
};

}  // namespace farside::kv
