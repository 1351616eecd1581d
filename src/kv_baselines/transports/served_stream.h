// served_stream.h — one client of a server, over a stream.
//
// Whatever the client sends, no other client waits for it, and no more is kept for it than one request, its reply and a
// few replies that are held: a client that does not take replies is not listened to.
//
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kv/protocol/inbox.h"
#include "kv_baselines/transports/framed_stream.h"

namespace farside::kv_baselines {

class ServedStream {
 public:
  explicit ServedStream(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  /// Answers what has come, and what the client has taken no reply to before. True if there was anything.
  bool serve(const kv::Inbox::Answer& answer);
  void release(const kv::Inbox::Revision& revision);
  [[nodiscard]] bool waits_for_room() const noexcept { return stream_.has_unsent(); }
  /// The client is lost, or speaks another protocol.
  [[nodiscard]] bool has_ended() const noexcept { return stream_.is_lost(); }

 private:
  static constexpr std::size_t kMaxHeld = 64;

  FramedStream stream_;
  std::vector<kv::Message> held_;
};

}  // namespace farside::kv_baselines
