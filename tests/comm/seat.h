// seat.h — what a member of a fleet has at hand in comm's tests.
#pragma once

#include <csignal>
#include <memory>
#include <vector>

#include "farside/comm/comm.h"

#include "tests/support/fleet_team.h"
#include "tests/support/mesh.h"

namespace farside::test {

/// What a member of a fleet has at hand.
struct Seat {
  explicit Seat(Member& me) : team(me), comm(team), channel(comm.open_channel()) {}

  [[nodiscard]] Deadline patience() { return team.fabric().in(kPatience); }

  FleetTeam team;
  Comm comm;
  std::unique_ptr<Channel> channel;
};

}  // namespace farside::test
