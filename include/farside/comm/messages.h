// messages.h — active messages: functions of the program that another rank has called, by number, with a few words and
// some bytes (NICAM, section 3.1).
//
// The receiver's service thread runs them while its program computes: one after another, and what one rank sent to
// another in the order in which it was sent. While a handler runs, nothing else happens in the background there. So a
// handler that would wait for that (Comm::wait, a barrier, a collective operation, a rendezvous) is thrown UsageError.
//
// Memory is bounded: a ring of `places` messages for each pair of ranks, and an outbox for each receiver. A program
// that sends more than is taken waits. A handler never waits: it is told that there was no place.
//
// Thread safety: every call, from any thread; each brings its own Channel. Handlers are run by the service thread
// alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "farside/comm/comm.h"

namespace farside::comm {

/// The same at all ranks.
struct MessagesOptions {
  std::uint32_t places = 32;          ///< of each ring
  std::uint32_t payload_bytes = 512;  ///< the most that a message carries beside its words
  std::uint32_t outbox = 1024;        ///< messages to one receiver that handlers may leave at once
};

class Messages {
 public:
  using Words = std::array<std::uint64_t, 5>;

  struct Message {
    std::uint32_t handler = 0;  ///< its place in the receiver's table
    Words words{};
    std::span<const std::byte> payload{};
  };

  /// The message that a handler is given. Valid while it runs.
  class Call {
   public:
    virtual ~Call() = default;
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    [[nodiscard]] team::Rank source() const noexcept { return source_; }
    [[nodiscard]] const Words& words() const noexcept { return message_.words; }
    [[nodiscard]] std::span<const std::byte> payload() const noexcept { return message_.payload; }

    /// Never waits: timed_out when the outbox is full, and then nothing was sent. Otherwise as Messages::send.
    virtual Status send(team::Rank to, const Message& message) = 0;
    Status reply(const Message& message) { return send(source_, message); }

   protected:
    Call(team::Rank source, const Message& message) : source_(source), message_(message) {}

   private:
    team::Rank source_;
    Message message_;
  };
  using Handler = std::function<void(Call&)>;

  struct Counters {
    std::uint64_t delivered;  ///< to handlers here
    std::uint64_t failed;     ///< handlers that threw: logged, and nothing else
    std::uint64_t refused;    ///< what came and was no message, or for no handler: logged at most once a second
  };

  /// Collective, with as many handlers at all ranks; a message's `handler` is a place in the table. `comm` outlives
  /// this.
  Messages(Comm& comm, std::vector<Handler> handlers, const MessagesOptions& options = {});
  /// No handler runs after it. Requires that no member sends to this rank any more.
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Done when the message is on its way: it is delivered as long as both processes live. timed_out when there was no
  /// place for it in time: it was not sent. peer_lost when the receiver is, for good: one that comes back is another.
  /// Throws UsageError for a handler or a rank that there is not, for too large a payload, and within a handler, which
  /// has Call::send.
  Status send(Channel& channel, team::Rank to, const Message& message, Deadline deadline);

  [[nodiscard]] Counters counters() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace farside::comm
