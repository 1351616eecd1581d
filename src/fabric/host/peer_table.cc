#include "fabric/host/peer_table.h"

#include <string>

#include "farside/base/error.h"

#include "base/assert.h"

namespace farside {

PeerTable::PeerTable() : words_(std::make_unique<std::atomic<std::uint32_t>[]>(kMaxPeers)) {}

void PeerTable::expect_free(PeerId peer) const {
  const Way now = way(peer);
  if (now == Way::none || now == Way::lost) return;
  throw Error({"connect", "peer " + std::to_string(peer), "it is connected already", "mark it lost first"});
}

void PeerTable::connect(PeerId peer, Way way) {
  std::atomic<std::uint32_t>& place = word(peer);
  const std::uint32_t before = place.load();
  assert_that(way_of(before) == Way::none || way_of(before) == Way::lost, "a number is free when it is connected");
  const std::uint32_t generation = (before >> 2) + 1;
  place.store((generation << 2) | static_cast<std::uint32_t>(way));
}

void PeerTable::mark_lost(PeerId peer, std::uint32_t life) {
  std::atomic<std::uint32_t>& place = word(peer);
  std::uint32_t before = place.load();
  while (before >> 2 == life &&
         !place.compare_exchange_weak(before, (before & ~3U) | static_cast<std::uint32_t>(Way::lost))) {
  }
}

void PeerTable::refuse(PeerId peer) {
  throw Error({"reach", "peer " + std::to_string(peer), "peers are numbered from 0 to 65535", ""});
}

}  // namespace farside
