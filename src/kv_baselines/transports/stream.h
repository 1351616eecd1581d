// stream.h — bytes to a peer and from it, in order: what requests and replies go over that are not RDMA WRITEs.
//
// Thread safety: one thread at a time.
//
// Stands alone: it is the interface of two streams.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "farside/fabric/channel.h"

namespace farside::kv_baselines {

class Stream {
 public:
  /// How many bytes went. None: the peer is lost, or speaks another protocol.
  using Moved = std::optional<std::size_t>;

  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Reads what has come, as much as fits; waits for it until `deadline`. 0: nothing came.
  [[nodiscard]] virtual Moved read(std::span<std::byte> into, Deadline deadline) = 0;
  /// Writes what goes at once. 0: the peer has to take something first.
  [[nodiscard]] virtual Moved write(std::span<const std::byte> bytes) = 0;
  /// Waits until more can be written, or something has come.
  virtual void await_room(Deadline deadline) = 0;

 protected:
  Stream() = default;
};

/// A deadline that is over: nothing is waited for.
inline constexpr Deadline kAtOnce{};

}  // namespace farside::kv_baselines
