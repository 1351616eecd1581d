// Jobs started as a user starts them: farside run and mpirun.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/command.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> farside_run(const std::string& ranks, std::vector<std::string> command) {
  command.insert(command.begin(), {FARSIDE_COMMAND, "run", "-n", ranks, "--"});
  return command;
}

std::vector<std::string> over_ucx(std::vector<std::string> command) {
  command.insert(command.begin(), {"env", "FARSIDE_FABRIC=ucx", "UCX_TLS=tcp", "UCX_NET_DEVICES=lo"});
  return command;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

bool installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null").c_str()) == 0;
}

// A team of several processes reaches each other's memory, also memory that was allocated later.
TEST(Run, FormsATeamThatSharesMemory) {
  const CommandEnd end = run(farside_run("4", {FARSIDE_MEMBER, "ring"}));
  EXPECT_EQ(end.code(), 0) << end.err;
  EXPECT_THAT(lines(end.out), UnorderedElementsAre("rank 0 of 4", "rank 1 of 4", "rank 2 of 4", "rank 3 of 4"));
  EXPECT_THAT(end.err, IsEmpty());
}

// The same over UCX, where a flag can still be on its way when its sender has left.
TEST(Run, FormsATeamOverUcx) {
  const CommandEnd end = run(over_ucx(farside_run("4", {FARSIDE_MEMBER, "ring"})));
  EXPECT_EQ(end.code(), 0) << end.err;
}

// UCX follows a late operation to memory that was freed.
TEST(Run, SurvivesLateOperationsOnFreedMemory) {
  const std::vector<std::string> command = farside_run("3", {FARSIDE_MEMBER, "free_early"});
  for (const CommandEnd& end : {run(command), run(over_ucx(command))}) EXPECT_EQ(end.code(), 0) << end.err;
}

// An MPI program would run, as jobs of size 1.
TEST(Run, WarnsOfAProgramThatIsLinkedWithMpi) {
  const CommandEnd end = run(farside_run("2", {FARSIDE_MPI_PROGRAM}));
  EXPECT_EQ(end.code(), 0) << end.err;
  EXPECT_THAT(lines(end.err), ElementsAre(AllOf(HasSubstr("libmpi.so.40"), HasSubstr("size 1"), HasSubstr("mpirun"))));
}

// Without a launcher a program still runs, alone.
TEST(Run, WithoutALauncherATeamHasOneMember) {
  const CommandEnd end = run({FARSIDE_MEMBER, "ring"});
  EXPECT_EQ(end.out, "rank 0 of 1\n") << end.err;
}

// Else every process would be a team of its own, and a job that computes nonsense is found out late.
TEST(Run, RefusesLaunchersWithoutPmix) {
  const CommandEnd by_slurm = run({"env", "SLURM_STEP_NUM_TASKS=4", FARSIDE_MEMBER, "ring"});
  EXPECT_NE(by_slurm.code(), 0);
  EXPECT_THAT(by_slurm.err, AllOf(HasSubstr("of 4 processes"), HasSubstr("srun --mpi=pmix")));
  const CommandEnd by_hydra = run({"env", "PMI_SIZE=2", FARSIDE_MEMBER, "ring"});
  EXPECT_NE(by_hydra.code(), 0);
  EXPECT_THAT(by_hydra.err, HasSubstr("offers no PMIx"));
  EXPECT_EQ(run({"env", "SLURM_STEP_NUM_TASKS=1", FARSIDE_MEMBER, "ring"}).out, "rank 0 of 1\n");
}

// A cluster's own launcher starts farside programs as they are.
TEST(Run, WorksUnderMpirun) {
  if (!installed("mpirun")) GTEST_SKIP() << "mpirun is not installed (Debian: openmpi-bin)";
  const CommandEnd end = run({"mpirun", "-n", "4", "--allow-run-as-root", "--oversubscribe", FARSIDE_MEMBER, "ring"});
  EXPECT_EQ(end.code(), 0) << end.err;
  EXPECT_THAT(lines(end.out), UnorderedElementsAre("rank 0 of 4", "rank 1 of 4", "rank 2 of 4", "rank 3 of 4"));
}

// Scripts see the exit code of the rank that failed, people see which rank it was, and the launcher does not wait for
// the others.
TEST(Run, PassesAnExitCodeThroughAndEndsTheOthers) {
  const CommandEnd end = run(farside_run("4", {FARSIDE_MEMBER, "fail"}));
  EXPECT_EQ(end.code(), 7);
  EXPECT_THAT(end.err, HasSubstr("rank 3 exited with code 7; ended the other 3"));
}

TEST(Run, SaysWhichSignalKilledWhichRank) {
  const CommandEnd end = run(farside_run("4", {FARSIDE_MEMBER, "crash"}));
  EXPECT_EQ(end.code(), 128 + SIGKILL);
  EXPECT_THAT(end.err, HasSubstr("rank 3 was killed by signal 9 (Killed); ended the other 3"));
}

// A program that ends well without ever joining must not keep the others waiting until their time is up.
TEST(Run, SaysWhichRankEndedWithoutJoining) {
  const std::string script = "if [ $FARSIDE_RANK = 1 ]; then exit 0; fi; exec " FARSIDE_MEMBER;
  const CommandEnd end = run(farside_run("3", {"sh", "-c", script}));
  EXPECT_EQ(end.code(), 1);
  // Without waiting for it: it would be one that "did not take part in time".
  EXPECT_THAT(end.err, HasSubstr("rank 1 exited with code 0 and never joined"));
}

// A rank that does not listen to SIGTERM is killed.
TEST(Run, EndsRanksThatIgnoreTheRequest) {
  const std::string script = "trap '' TERM; if [ $FARSIDE_RANK = 1 ]; then exit 3; fi; while :; do sleep 0.1; done";
  EXPECT_EQ(run(farside_run("2", {"sh", "-c", script})).code(), 3);
}

// The program inside a script ends with the script.
TEST(Run, EndsWhatItsRanksStarted) {
  const std::string script = "if [ $FARSIDE_RANK = 1 ]; then exit 3; fi; sleep 1000; true";
  EXPECT_EQ(run(farside_run("3", {"sh", "-c", script})).code(), 3);  // and run expects that nothing is left
}

// Mixed settings would send atomics on one word along two paths.
TEST(Run, RefusesATeamOfMixedFabricModes) {
  const std::string script = "if [ $FARSIDE_RANK = 1 ]; then export FARSIDE_FABRIC=direct; fi; exec " FARSIDE_MEMBER;
  const CommandEnd end = run(farside_run("2", {"sh", "-c", script}));
  EXPECT_EQ(end.code(), 1);
  EXPECT_THAT(end.err, HasSubstr("set FARSIDE_FABRIC alike for every rank"));
}

// No other machine can reach a job that runs on one machine, and the job costs nothing while it waits.
TEST(Run, OpensNoPortAndSleepsWhenIdle) {
  const CommandEnd end = run(farside_run("3", {FARSIDE_MEMBER, "frugal"}));
  EXPECT_EQ(end.code(), 0) << end.err;
}

// A signal for the job reaches every rank.
TEST(Run, ForwardsSignals) {
  const std::string script = "trap 'echo caught; exit 0' TERM; echo here; while :; do sleep 0.05; done";
  Command job(farside_run("3", {"sh", "-c", script}));
  ASSERT_TRUE(eventually([&] { return lines(job.out()).size() == 3; }));
  ::kill(job.pid(), SIGTERM);
  const CommandEnd end = job.wait();
  EXPECT_EQ(end.code(), 0) << end.err;
  EXPECT_EQ(std::ranges::count(lines(end.out), "caught"), 3);
}

// Not even kill -9 of the launcher leaves processes behind.
TEST(Run, LeavesNothingBehindWhenKilled) {
  Command job(farside_run("3", {FARSIDE_MEMBER, "linger"}));
  ASSERT_TRUE(eventually([&] { return lines(job.out()).size() == 3; }));
  ASSERT_EQ(job.processes().size(), 4u);
  ::kill(job.pid(), SIGKILL);
  EXPECT_EQ(job.wait().code(), 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return job.processes().empty(); }, std::chrono::seconds(10)));
}

TEST(Run, GivesTheInputToRankZeroAlone) {
  const CommandEnd end = run(farside_run("3", {"sh", "-c", "echo $FARSIDE_RANK $(cat)"}), "the input");
  EXPECT_THAT(lines(end.out), UnorderedElementsAre("0 the input", "1", "2"));
}

// With the codes that shells give.
TEST(Run, SaysThatAProgramCannotBeRun) {
  const CommandEnd missing = run(farside_run("2", {"/no/such/program"}));
  EXPECT_EQ(missing.code(), 127);
  EXPECT_THAT(missing.err, HasSubstr("cannot run /no/such/program: No such file or directory"));
  const CommandEnd directory = run(farside_run("2", {"/"}));
  EXPECT_EQ(directory.code(), 126);
  EXPECT_THAT(directory.err, HasSubstr("cannot run /: Permission denied"));
}

TEST(Run, RefusesWrongUse) {
  EXPECT_EQ(run({FARSIDE_COMMAND, "run"}).code(), 125);
  EXPECT_EQ(run({FARSIDE_COMMAND, "run", "-n", "2"}).code(), 125);
  EXPECT_EQ(run(farside_run("0", {"true"})).code(), 125);
  EXPECT_EQ(run(farside_run("many", {"true"})).code(), 125);
  EXPECT_EQ(run(farside_run("100000", {"true"})).code(), 125);
}

TEST(Run, HelpsWithAnExample) {
  const CommandEnd end = run({FARSIDE_COMMAND, "run", "--help"});
  EXPECT_EQ(end.code(), 0);
  EXPECT_THAT(end.out, HasSubstr("farside run -n 4 -- "));
}

}  // namespace
}  // namespace farside::test
