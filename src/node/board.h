// board.h — the node's end of the board: what the host's programs have read, as they note it themselves.
//
// The layout is in cache/node_socket.h. Programs write it without asking and may write nonsense; here it only steers
// which block goes first, and what `farside status` shows.
#pragma once

#include <cstdint>

#include "farside/base/fd.h"
#include "farside/cache/cache.h"
#include "farside/cache/node_socket.h"
#include "farside/fabric/time.h"

namespace farside::node {

class Board final : public cache::UseBoard {
 public:
  explicit Board(std::uint64_t slot_count);

  /// A program's stamp is CLOCK_MONOTONIC in nanoseconds, which is the host fabric's clock.
  [[nodiscard]] Time last_used(std::uint64_t slot) const override;
  /// The sums of all stripes.
  [[nodiscard]] cache::node_socket::HitStripe counts() const;

  [[nodiscard]] const Fd& file() const noexcept { return file_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return mapping_.bytes(); }

 private:
  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const;

  Fd file_;
  Mapping mapping_;
};

}  // namespace farside::node
