// Teams whose members die, stop and disagree, while the launcher lets the others go on.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "net/runtime_dir.h"
#include "team/coordinator.h"
#include "team/environment.h"
#include "team/launcher.h"

namespace farside::team {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Runs a scene of member.cc in a team of `ranks`.
class Scene {
 public:
  Scene(Rank ranks, const std::string& name, std::vector<std::string> environment = {},
        std::optional<RestartPolicy> restart = {})
      : coordinator_(dir_.path() / "coordinator", net::Secret::create(dir_.path() / "secret"), ranks),
        launcher_({.command = {FARSIDE_MEMBER, name},
                   .ranks = ranks,
                   .environment = with_team(std::move(environment)),
                   .end_all_on_failure = false,
                   .restart = restart}) {}

  JobEnd wait() { return launcher_.wait(); }

 private:
  std::vector<std::string> with_team(std::vector<std::string> environment) {
    environment.push_back(std::string(kCoordinatorVariable) + "=" + coordinator_.address());
    environment.push_back(std::string(kSecretFileVariable) + "=" + (dir_.path() / "secret").string());
    return environment;
  }

  net::JobDir dir_;
  Coordinator coordinator_;
  Launcher launcher_;
};

// A rank that waits for a killed rank learns of it within 2 s, and the others go on.
TEST(Team, OutlivesAKilledMember) {
  const JobEnd end = Scene(4, "die").wait();
  EXPECT_THAT(end.failures, ElementsAre("rank 3 was killed by signal 9 (Killed)"));
}

// A stopped rank is not dead until another rank evicts it; then it is killed, since its mappings cannot be taken away.
TEST(Team, OutlivesAnEvictedMember) {
  const JobEnd end = Scene(4, "evict").wait();
  EXPECT_THAT(end.failures, ElementsAre("rank 3 was killed by signal 9 (Killed)"));
}

TEST(Team, RefusesAllocationsThatDiffer) { EXPECT_THAT(Scene(2, "disagree").wait().failures, IsEmpty()); }

const std::vector<std::string> kOverUcx{"FARSIDE_FABRIC=ucx", "UCX_TLS=tcp", "UCX_NET_DEVICES=lo"};
constexpr RestartPolicy kAtOnce{
    .most_in_a_row = 100, .first_pause = std::chrono::milliseconds(1), .longest_pause = std::chrono::milliseconds(1)};

std::vector<std::string> lives(int count, std::vector<std::string> environment = {}) {
  environment.push_back("FARSIDE_MEMBER_LIVES=" + std::to_string(count));
  return environment;
}

// A rank that died comes back with empty memory; the others find the new life in the place of the old, and no operation
// on the old one ends well.
TEST(Team, TakesALostMemberBack) { EXPECT_THAT(Scene(3, "come_back", lives(4), kAtOnce).wait().failures, IsEmpty()); }

TEST(Team, TakesALostMemberBackOverUcx) {
  EXPECT_THAT(Scene(3, "come_back", lives(4, kOverUcx), kAtOnce).wait().failures, IsEmpty());
}

// Neither descriptors nor memory pile up at the others.
TEST(Team, TakesALostMemberBackFiftyTimes) {
  EXPECT_THAT(Scene(2, "come_back", lives(50), kAtOnce).wait().failures, IsEmpty());
}

// A rank that always fails is given up.
TEST(Team, DoesNotRestartForEver) {
  constexpr RestartPolicy kThrice{.most_in_a_row = 3, .first_pause = std::chrono::milliseconds(1)};
  const JobEnd end = Scene(1, "no such scene", {}, kThrice).wait();
  EXPECT_THAT(end.failures, ElementsAre("rank 0 exited with code 1"));
}

}  // namespace
}  // namespace farside::team
