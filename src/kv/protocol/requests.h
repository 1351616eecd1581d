// requests.h — how a session asks servers: what goes there and what comes back, whatever carries it.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "farside/fabric/channel.h"

#include "kv/protocol/key_id.h"

namespace farside::kv {

using Message = std::vector<std::byte>;

/// The longest request or reply.
inline constexpr std::uint64_t kMaxMessageBytes = 64U << 20U;

/// Throws UsageError when a request to `server` is longer.
void check_request_bytes(ServerNumber server, std::size_t bytes);

class Requests {
 public:
  virtual ~Requests() = default;
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  [[nodiscard]] virtual ServerNumber servers() const = 0;
  /// On its way, and may be lost: whether it was done only the reply tells. Several may be unanswered.
  virtual Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) = 0;
  /// Returns the reply to the oldest request of that server that is unanswered. After timed_out that reply will not be
  /// shown any more when it comes.
  virtual Result<Message> receive(ServerNumber server, Deadline deadline) = 0;
  /// Waits until receive need not wait for that server, or the deadline (timed_out). Takes nothing: the reply may be
  /// received later. Where that cannot be told it returns done at once.
  virtual Outcome await(ServerNumber /*server*/, Deadline /*deadline*/) { return Outcome::done; }
  /// Whether receive would not wait: the reply is there, or the server is lost.
  [[nodiscard]] virtual bool has_reply(ServerNumber server) = 0;
  /// After a call for that server ended with peer_lost: whether nothing in its place answers here, or is read by this
  /// session, ever again. Once it has said so it keeps to it. Never waits for long.
  [[nodiscard]] virtual bool is_loss_final(ServerNumber /*server*/) { return false; }

 protected:
  Requests() = default;
};

}  // namespace farside::kv
