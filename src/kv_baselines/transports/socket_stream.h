// socket_stream.h — a connected TCP socket.
#pragma once

#include "farside/base/fd.h"
#include "farside/fabric/fabric.h"

#include "kv_baselines/transports/stream.h"

namespace farside::kv_baselines {

class SocketStream final : public Stream {
 public:
  SocketStream(const Fabric& fabric, Fd socket);

  [[nodiscard]] Moved read(std::span<std::byte> into, Deadline deadline) override;
  [[nodiscard]] Moved write(std::span<const std::byte> bytes) override;
  void await_room(Deadline deadline) override;

 private:
  const Fabric& fabric_;
  Fd socket_;  // blocking: what must not wait says so
};

}  // namespace farside::kv_baselines
