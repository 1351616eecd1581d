// stream_requests.h — requests and their replies over a stream to each server: the client's side.
//
// Thread safety: one thread at a time.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/protocol/requests.h"
#include "kv_baselines/transports/framed_stream.h"

namespace farside::kv_baselines {

class StreamRequests final : public kv::Requests {
 public:
  /// By server.
  StreamRequests(const Fabric& fabric, std::vector<std::unique_ptr<Stream>> streams);

  [[nodiscard]] kv::ServerNumber servers() const override { return static_cast<kv::ServerNumber>(connections_.size()); }
  /// Throws UsageError when the request is longer than kMaxMessageBytes.
  Outcome send(kv::ServerNumber server, std::span<const std::byte> request, Deadline deadline) override;
  /// Throws UsageError when nothing is unanswered.
  Result<kv::Message> receive(kv::ServerNumber server, Deadline deadline) override;
  [[nodiscard]] bool has_reply(kv::ServerNumber server) override;

 private:
  struct Connection {
    FramedStream stream;
    std::deque<bool> awaited{};         ///< of the requests without a reply, the oldest first: a caller waits for it
    std::deque<kv::Message> replies{};  ///< that a caller waits for

    /// Sorts what has been received.
    void take_replies();
    /// The oldest for which a caller waits; the end if there is none.
    [[nodiscard]] std::deque<bool>::iterator oldest_awaited();
  };

  const Fabric& fabric_;
  std::vector<Connection> connections_;
};

}  // namespace farside::kv_baselines
