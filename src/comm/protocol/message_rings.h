// message_rings.h — messages from each rank to each, in order (docs/protocols/comm.md, "Messages").
//
// Each pair of ranks has a ring of records in the receiver's memory. The sender writes a record and then the ring's
// tail; the receiver copies a record and then gives its place back. At each rank:
//
//   tail[s]          ControlWord   written by s: number of the last message of s to this rank that is in the ring
//   taken[r]         ControlWord   written by r: number of the last message of this rank to r whose place is free again
//   left[r]          ControlWord   written by this rank: as many messages to r have left the outbox; for its threads
//   ring[s][place]   Bulk          the records of s (message_record.h); message n lies in place n mod places
//
// Messages wait in an outbox of the sending process. A thread that finds no other one at the outbox carries as many to
// the ring as have room there, one thread at a time for each receiver.
//
// Guarantee: messages of one rank to another are delivered once each, in the order in which they were left, as long as
// both live. What does not look like a message is not delivered.
//
// Thread safety: every call but receive, from any thread; receive by one thread. None waits for a receiver to take
// anything, except send.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "farside/team/team.h"

#include "base/mutex.h"
#include "base/throttled_log.h"
#include "comm/protocol/message_record.h"
#include "comm/protocol/rules.h"

namespace farside::comm {

class MessageRings {
 public:
  /// The same at all ranks.
  struct Shape {
    std::uint32_t handlers;       ///< numbers of handlers are below it
    std::uint32_t places;         ///< of a ring
    std::uint32_t payload_bytes;  ///< the most of a message
    std::uint32_t outbox;         ///< places for each receiver, beside `places` for messages that wait for one
  };
  struct Arrived {
    team::Rank source;
    std::uint32_t handler;
    const MessageWords& words;
    std::span<const std::byte> payload;
  };
  using Deliver = std::function<void(const Arrived&)>;
  /// Wakes a rank, so that it calls receive and carry_all.
  using Ring = std::function<Outcome(Channel&, team::Rank, Deadline)>;

  /// Collective.
  MessageRings(team::Team& team, const std::string& name, const Shape& shape, Ring ring,
               const MessageRules& rules = {});

  /// Into the outbox; timed_out when it is full. What was left must be carried.
  Outcome leave(team::Rank to, MessageRecord record);
  /// The same, but waits for a place. Uses as much of the outbox as a ring has, so that `leave` always has the rest.
  Outcome send(Channel& channel, team::Rank to, MessageRecord record, Deadline deadline);

  /// From the outbox to the ring, as far as there is room. Requires: a call after a time-out has the same channel.
  Outcome carry(Channel& channel, team::Rank to);
  void carry_all(Channel& channel);
  /// Delivers what is in this rank's rings.
  void receive(Channel& channel, const Deliver& deliver);

  /// Records that were none, so far.
  [[nodiscard]] std::uint64_t refused() const;

 private:
  /// To one receiver.
  struct Outbox {
    std::deque<MessageRecord> waiting;
    std::vector<MessageRecord> leaving;  ///< the carrying thread's own: the first has number sent + 1
    std::uint64_t sent = 0;              ///< number of the last that is known to be in the ring
    std::uint64_t told = 0;              ///< what sleepers were last told of that; the carrying thread's own
    std::uint32_t sleepers = 0;          ///< threads that wait for a place
    bool is_carried = false;             ///< by one thread at a time
    bool is_wanted_again = false;        ///< another thread came meanwhile, and left it to the first
    bool lost = false;                   ///< the receiver, for good
  };
  /// From one sender.
  struct Inbox {
    std::uint64_t taken = 0;
    std::uint64_t given_back = 0;
  };

  Outcome put_in(team::Rank to, MessageRecord& record, std::size_t places) REQUIRES(mutex_);
  bool take_turn(Outbox& outbox);
  bool end_turn(Outbox& outbox, Outcome outcome);
  bool choose_leaving(Outbox& outbox, team::Rank to);
  Outcome write_leaving(Channel& channel, Outbox& outbox, team::Rank to);
  void note_left(Outbox& outbox);
  Outcome tell_left(Channel& channel, Outbox& outbox, team::Rank to);

  void receive_from(Channel& channel, team::Rank source, const Deliver& deliver);
  struct Copied {
    MessageHeader header;
    std::string_view wrong{};  ///< with it, or empty: the payload is in payload_
  };
  [[nodiscard]] Copied copy_out(team::Rank source, std::uint64_t number);
  void give_back(Channel& channel, team::Rank source);
  void refuse(team::Rank source, std::string_view why);

  [[nodiscard]] std::uint64_t tail_offset(team::Rank sender) const;
  [[nodiscard]] std::uint64_t taken_offset(team::Rank receiver) const;
  [[nodiscard]] std::uint64_t left_offset(team::Rank receiver) const;
  [[nodiscard]] std::uint64_t record_offset(team::Rank sender, std::uint64_t number) const;

  team::Team& team_;
  const MessageRules rules_;
  const Shape shape_;
  const Ring ring_;
  std::unique_ptr<team::SymmetricRegion> memory_;

  mutable Mutex mutex_;  // never held across a call of the fabric
  std::vector<Outbox> outboxes_;
  std::uint64_t refused_ GUARDED_BY(mutex_) = 0;

  std::vector<Inbox> inboxes_;      // these belong to the receiving thread
  std::vector<std::byte> payload_;  ///< of the message that is being delivered
  ThrottledLog log_;
};

}  // namespace farside::comm
