// served_stream.h — one client of a server, over a stream.
//
// Whatever the client sends, nobody waits for it, and no more is kept for it than one request and its reply: who does
// not take replies is not listened to.
//
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <utility>

#include "kv/protocol/inbox.h"
#include "kv/transports/framed_stream.h"

namespace farside::kv {

class ServedStream {
 public:
  explicit ServedStream(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  /// Answers what has come, and what the client has taken no reply to before. True if there was anything.
  bool serve(const Inbox::Answer& answer);
  [[nodiscard]] bool waits_for_room() const noexcept { return stream_.has_unsent(); }
  /// The client is lost, or speaks another protocol.
  [[nodiscard]] bool has_ended() const noexcept { return stream_.is_lost(); }

 private:
  FramedStream stream_;
};

}  // namespace farside::kv
