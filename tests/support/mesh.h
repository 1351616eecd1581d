// mesh.h — the fabric under test, in one process of a fleet: connected to every member, with a region at each.
//
// Which fabric it is comes from the environment, so that one test source runs over all: FARSIDE_FABRIC, and
// FARSIDE_TEST_HOSTS=2 to have the members live on two hosts by turns (hosts.h).
#pragma once

#include <memory>
#include <vector>

#include "farside/fabric/fabric.h"

#include "tests/support/fleet.h"
#include "tests/support/reduced.h"

namespace farside::test {

/// Long enough for a loaded machine; only a failing test waits that long.
inline const Duration kTimeout = extended(std::chrono::seconds(30));

struct Mesh {
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Region> local;
  std::vector<std::unique_ptr<RemoteRegion>> remotes;  ///< by index; one's own, too
  std::unique_ptr<Channel> channel;

  [[nodiscard]] const RemoteRegion& at(unsigned index) const { return *remotes.at(index); }
  [[nodiscard]] Deadline deadline() const { return fabric->in(kTimeout); }
};

/// Collective: every member offers `bytes` and attaches those of all members. A member's index is its PeerId.
[[nodiscard]] Mesh make_mesh(Member& me, std::uint64_t bytes);

/// The fabric that the environment names, on the member's host.
[[nodiscard]] std::unique_ptr<Fabric> make_fabric_under_test(const Member& me);

}  // namespace farside::test
