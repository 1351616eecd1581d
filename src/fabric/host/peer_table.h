// peer_table.h — which peers this process is connected to, in which way, and which of them are lost.
//
// One word for each peer number:   generation (30 bits) | way (2 bits)
//
// An access remembers the word under which it was opened and compares it before each operation: once its peer is lost
// it is void for ever, even when the number is connected again, which begins a new generation.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "farside/fabric/region.h"

namespace farside {

class PeerTable {
 public:
  static constexpr PeerId kMaxPeers = 1 << 16;
  enum class Way : std::uint32_t { none, lost, direct, ucx };

  PeerTable();

  /// How often the number was connected.
  [[nodiscard]] std::uint32_t life(PeerId peer) const { return word(peer).load(std::memory_order_acquire) >> 2; }
  [[nodiscard]] Way way(PeerId peer) const { return way_of(word(peer).load(std::memory_order_acquire)); }
  /// Throws Error when the number is out of range.
  [[nodiscard]] std::atomic<std::uint32_t>& word(PeerId peer) const {
    if (peer >= kMaxPeers) [[unlikely]]
      refuse(peer);
    return words_[peer];
  }

  /// Throws Error when the peer is connected and not lost.
  void expect_free(PeerId peer) const;
  /// Begins a new generation of a free number. Calls for one number come one at a time.
  void connect(PeerId peer, Way way);
  /// Does nothing unless `life` is the one that the number has.
  void mark_lost(PeerId peer, std::uint32_t life);

 private:
  static Way way_of(std::uint32_t word) { return static_cast<Way>(word & 3); }
  [[noreturn]] static void refuse(PeerId peer);

  std::unique_ptr<std::atomic<std::uint32_t>[]> words_;
};

}  // namespace farside
