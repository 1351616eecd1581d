// Teams whose members die, stop and disagree, while the launcher lets the others go on.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "team/coordinator.h"
#include "team/environment.h"
#include "team/launcher.h"
#include "team/runtime_dir.h"

namespace farside {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Runs a scene of member.cc in a team of `ranks`.
class Scene {
 public:
  Scene(Rank ranks, const std::string& name)
      : coordinator_(dir_.path() / "coordinator", Secret::create(dir_.path() / "secret"), ranks),
        launcher_({.command = {FARSIDE_MEMBER, name},
                   .ranks = ranks,
                   .environment = {std::string(kCoordinatorVariable) + "=" + coordinator_.address(),
                                   std::string(kSecretFileVariable) + "=" + (dir_.path() / "secret").string()},
                   .end_all_on_failure = false}) {}

  JobEnd wait() { return launcher_.wait(); }

 private:
  JobDir dir_;
  Coordinator coordinator_;
  Launcher launcher_;
};

// Whoever waits for a killed rank learns of it within 2 s, and the others go on.
TEST(Team, OutlivesAKilledMember) {
  const JobEnd end = Scene(4, "die").wait();
  EXPECT_THAT(end.failures, ElementsAre("rank 3 was killed by signal 9 (Killed)"));
}

// A stopped rank is not dead until somebody evicts it; then it is killed, since its mappings cannot be taken away.
TEST(Team, OutlivesAnEvictedMember) {
  const JobEnd end = Scene(4, "evict").wait();
  EXPECT_THAT(end.failures, ElementsAre("rank 3 was killed by signal 9 (Killed)"));
}

TEST(Team, RefusesAllocationsThatDiffer) { EXPECT_THAT(Scene(2, "disagree").wait().failures, IsEmpty()); }

}  // namespace
}  // namespace farside
