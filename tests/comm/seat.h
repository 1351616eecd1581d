// seat.h — what a member of a fleet has at hand in comm's tests.
#pragma once

#include <atomic>
#include <csignal>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "farside/comm/comm.h"

#include "tests/support/fleet_team.h"
#include "tests/support/hosts.h"
#include "tests/support/mesh.h"
#include "tests/support/shared.h"

namespace farside::test {

/// What a member of a fleet has at hand.
struct Seat {
  explicit Seat(Member& me) : team(me), comm(team), channel(comm.open_channel()) {}

  /// Before memory goes: what a service thread has begun it may not have done with when others have all they waited
  /// for.
  void leave(Member& me) {
    EXPECT_TRUE(comm.wait(*channel, comm.issued(), deadline()).done());
    me.barrier();
  }

  [[nodiscard]] Deadline deadline() { return team.fabric().in(kTimeout); }

  FleetTeam team;
  comm::Comm comm;
  std::unique_ptr<Channel> channel;
};

/// The members reach each other's memory without any thread of the other.
inline bool all_map_all() { return !Hosts::wanted() && fabric_mode_from_environment() != FabricMode::ucx; }

/// Those who outlive a death leave together: who leaves earlier is as lost to the others as the dead.
class Survivors {
 public:
  void leave_together(unsigned count) {
    ++*ready_;
    EXPECT_TRUE(eventually([&] { return *ready_ >= count; }));
  }

 private:
  Shared<std::atomic<unsigned>> ready_;
};

}  // namespace farside::test
