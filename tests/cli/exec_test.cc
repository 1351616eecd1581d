// What farside exec makes of its own arguments; what it does to programs stands in tests/exec.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "tests/support/pool.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ExecTest : public PoolTest {
 protected:
  CommandEnd exec(std::vector<std::string> command) {
    command.insert(command.begin(), {"exec", "--under", files_dir(), "--"});
    return farside(command);
  }
};

TEST_F(ExecTest, RefusesWhatIsNoDirectory) {
  std::ofstream(files_dir() / "file") << "no directory";
  const std::vector<std::string> names{"/no/such/directory", "", files_dir() / "file"};
  for (const std::string& name : names) {
    const CommandEnd end = farside({"exec", "--under", name, "--", "echo", "started"});
    EXPECT_EQ(end.code(), 125) << name;
    EXPECT_THAT(end.err, HasSubstr("give --under a directory"));
    EXPECT_THAT(end.out, IsEmpty());
  }
}

TEST_F(ExecTest, RefusesANodeThatThePoolDoesNotHave) {
  ASSERT_EQ(up({"-n", "2", "--cache", "16M"}).code(), 0);
  const CommandEnd end = farside({"exec", "--node", "2", "--", "true"});
  EXPECT_EQ(end.code(), 125);
  EXPECT_THAT(end.err, HasSubstr("through node 2: the pool has none of that number on this machine"));
}

TEST_F(ExecTest, WantsAProgram) { EXPECT_EQ(farside({"exec"}).code(), 125); }

// Scripts go on working on a machine whose pool is down.
TEST_F(ExecTest, RunsTheProgramWithoutAPoolAndSaysSoOnce) {
  const CommandEnd end = exec({"sh", "-c", "cat /dev/null; echo output; exit 5"});
  EXPECT_EQ(end.code(), 5);
  EXPECT_EQ(end.out, "output\n");
  EXPECT_THAT(end.err, HasSubstr("farside up starts a pool"));
  EXPECT_EQ(std::ranges::count(end.err, '\n'), 1);
}

TEST_F(ExecTest, RunsTheProgramWithoutARuntimeDirectory) {
  std::filesystem::create_directories(runtime_dir());
  std::filesystem::permissions(runtime_dir(), std::filesystem::perms(0755));
  const CommandEnd end = exec({"sh", "-c", "echo output; exit 5"});
  EXPECT_EQ(end.code(), 5);
  EXPECT_EQ(end.out, "output\n");
  EXPECT_THAT(end.err, HasSubstr("others may enter it"));
  EXPECT_THAT(end.err, HasSubstr("the program reads from the file system"));
}

TEST_F(ExecTest, SaysWhereTheProgramsOptionsBelong) {
  const CommandEnd end = farside({"exec", "sh", "-c", "exit 5"});
  EXPECT_EQ(end.code(), 125);
  EXPECT_THAT(end.err, HasSubstr("-- before the program"));
  EXPECT_THAT(farside({"exec", "--none", "--", "true"}).err, Not(HasSubstr("-- before the program")));
}

TEST_F(ExecTest, EndsAsTheProgramDoes) {
  ASSERT_EQ(up({"--cache", "16M"}).code(), 0);
  const CommandEnd failed = exec({"sh", "-c", "exit 7"});
  EXPECT_EQ(failed.code(), 7);
  EXPECT_THAT(failed.err, IsEmpty());
  const CommandEnd killed = exec({"sh", "-c", "kill -9 $$"});
  EXPECT_TRUE(WIFSIGNALED(killed.status) && WTERMSIG(killed.status) == SIGKILL);
}

// With the codes that shells give.
TEST_F(ExecTest, SaysThatAProgramCannotBeRun) {
  const CommandEnd missing = exec({"no-such-program"});
  EXPECT_EQ(missing.code(), 127);
  EXPECT_THAT(missing.err, HasSubstr("cannot run no-such-program: No such file or directory"));
  const CommandEnd directory = exec({files_dir()});
  EXPECT_EQ(directory.code(), 126);
  EXPECT_THAT(directory.err, HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace farside::test
