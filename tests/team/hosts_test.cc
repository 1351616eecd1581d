// Teams whose members are on two hosts. Run with FARSIDE_TEST_HOSTS=2 (tests/support/hosts.h).
#include "tests/support/hosts.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/runtime_dir.h"
#include "team/coordinator.h"
#include "team/environment.h"
#include "tests/support/fleet.h"

namespace farside::test {
namespace {

using team::Rank;

/// A scene of member.cc, with a rank on each of the hosts named and the coordinator on host 0.
class Scene {
 public:
  Scene(const std::string& name, const std::vector<unsigned>& hosts)
      : fleet_(static_cast<unsigned>(hosts.size()) + 1, [&](Member& me) {
          if (me.index() == hosts.size()) return coordinate(me, static_cast<Rank>(hosts.size()));
          Hosts::enter(hosts[me.index()]);
          ::setenv(team::kCoordinatorVariable, me.exchange("").back().c_str(), 1);
          ::setenv(team::kSecretFileVariable, secret_file().c_str(), 1);
          ::setenv(team::kRankVariable, std::to_string(me.index()).c_str(), 1);
          ::execl(FARSIDE_MEMBER, "member", name.c_str(), nullptr);
          throw std::runtime_error("cannot start " FARSIDE_MEMBER);
        }) {}

  void expect_success(Rank rank) {
    const int status = fleet_.wait(rank);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << " ended with status " << status;
  }
  void expect_killed(Rank rank) {
    const int status = fleet_.wait(rank);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "rank " << rank << " has status " << status;
  }
  void go_on(Rank rank) { fleet_.signal(rank, SIGCONT); }

 private:
  [[nodiscard]] std::string secret_file() const { return dir_.path() / "secret"; }

  // Until the fleet ends.
  void coordinate(Member& me, Rank ranks) {
    Hosts::enter(0);
    const team::Coordinator coordinator("10.99.0.1:0", net::Secret::create(secret_file()), ranks, {}, {},
                                        team::kMinSilence);
    me.exchange(coordinator.address());
    ::pause();
  }

  net::JobDir dir_;
  Fleet fleet_;
};

TEST(TeamHosts, FormOneTeam) {
  Scene scene("ring", {0, 0, 1, 1});
  for (Rank rank = 0; rank < 4; ++rank) scene.expect_success(rank);
}

TEST(TeamHosts, LearnOfADeathOnTheOther) {
  Scene scene("die", {0, 0, 1, 1});
  for (Rank rank = 0; rank < 3; ++rank) scene.expect_success(rank);
  scene.expect_killed(3);
}

// Taking a member's access away is one call, also where it cannot be killed.
TEST(TeamHosts, EvictAMemberOfTheOther) {
  Scene scene("evict", {0, 1, 1});
  for (Rank rank = 0; rank < 2; ++rank) scene.expect_success(rank);
  scene.expect_killed(2);  // by rank 1, on whose host it is
}

// No process sees one of another host stop: it is its silence that is noticed. If it goes on later, it knows.
TEST(TeamHosts, CutOffWhoFallsSilent) {
  Scene scene("stall", {0, 0, 1});
  for (Rank rank = 0; rank < 2; ++rank) scene.expect_success(rank);
  scene.go_on(2);
  scene.expect_success(2);
}

}  // namespace
}  // namespace farside::test
