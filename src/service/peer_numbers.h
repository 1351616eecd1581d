// peer_numbers.h — numbers for the clients of a service, as peers of its fabric: a revoked number is reused.
//
// Thread safety: one thread at a time.
//
// Stands alone: the services of kv and of far memory number their clients with it.
#pragma once

#include <string>
#include <vector>

#include "farside/fabric/fabric.h"

#include "base/assert.h"

namespace farside::service {

class PeerNumbers {
 public:
  /// Those below `first` belong to others.
  explicit PeerNumbers(PeerId first) noexcept : next_(first) {}

  /// The number of the peer of `fabric` that is at `address` from now on. Throws Error.
  [[nodiscard]] PeerId connect(Fabric& fabric, const std::string& address) {
    const PeerId peer = free_.empty() ? next_ : free_.back();
    fabric.connect(peer, address);
    if (free_.empty()) {
      ++next_;
    } else {
      free_.pop_back();
    }
    return peer;
  }
  void give_back(PeerId peer) {
    assert_that(peer < next_, "a number that is given back was given");
    free_.push_back(peer);
  }

 private:
  PeerId next_;
  std::vector<PeerId> free_;
};

}  // namespace farside::service
