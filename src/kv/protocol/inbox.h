// inbox.h — where a server's requests come from, whatever carries them.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "kv/protocol/requests.h"

namespace farside::kv {

class Inbox {
 public:
  struct Said {
    // Implicit: most of what is said is said at once.
    Said(Message message, bool held = false) : reply(std::move(message)), is_held(held) {}

    Message reply;  ///< empty: the request is not of this protocol, so the connection ends
    bool is_held;   ///< until `release`
  };
  using Answer = std::function<Said(std::span<const std::byte> request)>;
  /// Returns the reply to send in place of one that was held.
  using Revision = std::function<Message(Message)>;

  virtual ~Inbox() = default;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Answers what has come, no client keeping the others waiting for long; sleeps until there may be something, at most
  /// `pause`, if there was nothing. True if there was anything.
  virtual bool serve(const Answer& answer, Duration pause) = 0;
  /// Sends what is held.
  virtual void release(const Revision& revision) = 0;
  /// The longest sleep that does not delay a client which cannot wake this inbox.
  [[nodiscard]] virtual Duration longest_pause() const { return kMaxPause; }
  /// Memory of this server in which requests come.
  [[nodiscard]] virtual std::uint64_t ring_bytes() const { return 0; }

 protected:
  static constexpr Duration kMaxPause = std::chrono::milliseconds(20);

  Inbox() = default;
};

}  // namespace farside::kv
