// What a team tells UCX of its size, as UCX hears it.
#include <cstdlib>
#include <memory>

#include <gtest/gtest.h>

#include "team/host_team.h"
#include "tests/fabric/ucx_faults.h"
#include "tests/support/fleet.h"
#include "tests/team/fleet_bootstrap.h"

namespace farside::test {
namespace {

// By it UCX chooses transports whose state does not grow with the number of peers.
TEST(TeamOverUcx, TellsHowManyRanksThereAre) {
  Fleet fleet(3, [](Member& me) {
    ::setenv("FARSIDE_FABRIC", "ucx", 1);
    ::setenv("UCX_NET_DEVICES", "lo", 1);
    team::HostTeam team([&](net::EventLoop&, const team::MembershipNotices&, net::SetupClock::time_point) {
      return std::make_unique<FleetBootstrap>(me);
    });
    EXPECT_EQ(ucx_faults().estimated_endpoints, 3U);
    me.barrier();
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
