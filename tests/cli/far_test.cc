// farside far: an unmodified program below it, and what it makes of its own arguments.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FarTest : public PoolTest {
 protected:
  CommandEnd far(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "far");
    return farside(arguments);
  }
  // Of tests/far_preload: it checks all that it gets back.
  CommandEnd program(const std::string& what, const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments{"--local", "2M", "--trust-nodes"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.insert(arguments.end(), {"--", FARSIDE_FAR_PROGRAM, what});
    return far(arguments);
  }
};

// A quarter of what it touches at least may be here.
TEST_F(FarTest, AProgramDoesWhatItAlwaysDoes) {
  ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--far", "128M"}).code(), 0);
  for (const std::string what : {"statics",
                                 "statics_discarded",
                                 "statics_unmapped",
                                 "statics_mapped_over",
                                 "statics_remapped",
                                 "statics_pinned",
                                 "locked_mappings",
                                 "malloc",
                                 "unmapped_parts",
                                 "remapped",
                                 "advised",
                                 "mapped_over",
                                 "attached_over",
                                 "huge_pages_over",
                                 "protected_pages",
                                 "threads",
                                 "forks",
                                 "forks_among_threads",
                                 "forks_beside_libc",
                                 "forks_past_hooks",
                                 "futexes",
                                 "system_calls",
                                 "signals",
                                 "descriptors",
                                 "without_descriptors",
                                 "direct_reads",
                                 "direct_writes",
                                 "refused_calls",
                                 "spawns",
                                 "executes",
                                 "frees"}) {
    const CommandEnd end = program(what);
    EXPECT_EQ(end.code(), 0) << what << '\n' << end.err;
    EXPECT_THAT(end.err, IsEmpty()) << what;
  }
}

// Both libraries stand between stdio and libc, exec's in front.
TEST_F(FarTest, AProgramBelowExecReadsDirectlyToo) {
  ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--far", "128M"}).code(), 0);
  const CommandEnd end = farside({"exec", "--", FARSIDE_COMMAND, "far", "--local", "2M", "--trust-nodes", "--",
                                  FARSIDE_FAR_PROGRAM, "direct_reads"});
  EXPECT_EQ(end.code(), 0) << end.err;
}

// Its hard limit is reached: memory goes back all the same, and fork says why it fails.
TEST_F(FarTest, ServesAProgramThatHasNoDescriptorFree) {
  ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--far", "128M"}).code(), 0);
  const CommandEnd end = program("without_any_descriptors");
  EXPECT_EQ(end.code(), 0) << end.err;
  EXPECT_THAT(end.err, HasSubstr("cannot fork: no descriptor is free"));
}

// What they had is the pool's again, and nothing of theirs stays.
TEST_F(FarTest, NothingIsLeftOfAProgram) {
  ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--far", "64M"}).code(), 0);
  const std::vector<std::string> before = runtime_files();
  for (int round = 0; round < 4; ++round) EXPECT_EQ(program("malloc").code(), 0);  // each takes more than a quarter
  EXPECT_EQ(runtime_files(), before);
}

TEST_F(FarTest, MirrorsWhatItKeeps) {
  ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--far", "64M"}).code(), 0);
  EXPECT_EQ(far({"--local", "2M", "--mirror", "--", FARSIDE_FAR_PROGRAM, "statics"}).code(), 0);
}

TEST_F(FarTest, SpillsWhatItKeepsToANewFile) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  const std::string file = runtime_dir() / "spill";
  const std::vector<std::string> before = runtime_files();
  EXPECT_EQ(far({"--local", "2M", "--spill", file, "--", FARSIDE_FAR_PROGRAM, "statics"}).code(), 0);
  EXPECT_EQ(runtime_files(), before);
  const CommandEnd taken = far({"--local", "2M", "--spill", FARSIDE_FAR_PROGRAM, "--", "true"});
  EXPECT_EQ(taken.code(), 125);
  EXPECT_THAT(taken.err, HasSubstr(FARSIDE_FAR_PROGRAM));
  EXPECT_EQ(far({"--local", "16M", "--mirror", "--spill", file, "--", "true"}).code(), 125);
}

TEST_F(FarTest, PrintsPagingStatistics) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  const CommandEnd end = program("statics", {"--stats"});
  EXPECT_EQ(end.code(), 0);
  for (const char* word :
       {"programs                 1\n", "\nfaults                   ", " first touches)\n", "write-protection faults  ",
        "prefetched               ", "in                       ", "\nout                      ",
        "in faults                ", "a fault                  half within "}) {
    EXPECT_THAT(end.err, HasSubstr(word));
  }
}

TEST_F(FarTest, EndsAsTheProgramDoes) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  const CommandEnd failed =
      far({"--local", "16M", "--trust-nodes", "--", "sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(failed.code(), 7);
  EXPECT_EQ(failed.out, "out\n");
  EXPECT_EQ(failed.err, "err\n");
  EXPECT_EQ(far({"--local", "16M", "--trust-nodes", "--", "sh", "-c", "kill -9 $$"}).code(), 128 + SIGKILL);
}

// With the codes that shells give.
TEST_F(FarTest, SaysThatAProgramCannotBeRun) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  const CommandEnd missing = far({"--local", "16M", "--trust-nodes", "--", "no-such-program"});
  EXPECT_EQ(missing.code(), 127);
  EXPECT_THAT(missing.err, HasSubstr("cannot run no-such-program: No such file or directory"));
  const CommandEnd directory = far({"--local", "16M", "--trust-nodes", "--", files_dir()});
  EXPECT_EQ(directory.code(), 126);
  EXPECT_THAT(directory.err, HasSubstr("Permission denied"));
}

// At once when it is much, and at the end in any case.
TEST_F(FarTest, SaysThatAProgramsMemoryIsNotFar) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  for (const std::string program : {FARSIDE_FAR_PROGRAM " outside", FARSIDE_FAR_STATIC_PROGRAM " stays"}) {
    Command command({"/usr/bin/env", "FARSIDE_RUNTIME_DIR=" + runtime_dir().string(), "sh", "-c",
                     "exec " FARSIDE_COMMAND " far --local 40M --trust-nodes -- " + program + " 2>&1"});
    EXPECT_TRUE(eventually([&] {
      return command.out().find("of the programs' memory is not far") != std::string::npos;
    })) << program;
    ::kill(command.pid(), SIGTERM);
    EXPECT_EQ(command.wait().code(), 128 + SIGTERM);
  }
  const CommandEnd end = far({"--local", "40M", "--trust-nodes", "--", FARSIDE_FAR_STATIC_PROGRAM});
  EXPECT_EQ(end.code(), 0);
  EXPECT_THAT(end.err, HasSubstr("nothing that was run had far memory"));
}

// However it is started: by a shell, as its script's interpreter, by execvp, execve, posix_spawn, or its descriptor.
TEST_F(FarTest, NamesAStaticProgramThatAProgramStarts) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  const std::string script = files_dir() / "script";
  std::ofstream(script) << "#! " FARSIDE_FAR_STATIC_PROGRAM "\n";
  ::chmod(script.c_str(), 0755);
  const std::string python = "import os, subprocess; program = '" FARSIDE_FAR_STATIC_PROGRAM "'; ";
  const std::vector<std::vector<std::string>> ways{
      {"sh", "-c", FARSIDE_FAR_STATIC_PROGRAM "; true"},
      {"sh", "-c", "for i in 1 2 3; do " FARSIDE_FAR_STATIC_PROGRAM "; done"},
      {"sh", "-c", script + "; true"},
      {"env", FARSIDE_FAR_STATIC_PROGRAM},
      {"env", "PATH=/nowhere::" + std::filesystem::path(FARSIDE_FAR_STATIC_PROGRAM).parent_path().string(),
       std::filesystem::path(FARSIDE_FAR_STATIC_PROGRAM).filename().string()},
      {"python3", "-c", python + "subprocess.run([program])"},
      {"python3", "-c", python + "os.waitpid(os.posix_spawn(program, [program], os.environ), 0)"}};
  for (const std::vector<std::string>& way : ways) {
    std::vector<std::string> arguments{"--local", "300M", "--trust-nodes", "--"};
    arguments.insert(arguments.end(), way.begin(), way.end());
    const CommandEnd end = far(arguments);
    EXPECT_EQ(end.code(), 0) << testing::PrintToString(way);
    EXPECT_EQ(end.err, "farside far: " FARSIDE_FAR_STATIC_PROGRAM " is linked statically: it has no far memory\n")
        << testing::PrintToString(way);
  }
  const CommandEnd by_descriptor = far({"--local", "300M", "--trust-nodes", "--", "python3", "-c",
                                        python + "os.execve(os.open(program, os.O_RDONLY), [program], os.environ)"});
  EXPECT_EQ(by_descriptor.err, "farside far: an open file is linked statically: it has no far memory\n");
}

// Scripts are none either, nor is a dynamic linker, though it names no dynamic linker itself.
TEST_F(FarTest, WarnsOfNoDynamicProgram) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  const std::string script = files_dir() / "script";
  std::ofstream(script) << "#!/bin/sh\n/lib64/ld-linux-x86-64.so.2 /bin/true && python3 -c pass && env true\n";
  ::chmod(script.c_str(), 0755);
  const CommandEnd end = far({"--local", "16M", "--trust-nodes", "--", "sh", "-c", script + " && /bin/true"});
  EXPECT_EQ(end.code(), 0);
  EXPECT_THAT(end.err, IsEmpty());
}

// What farside far inherited, and nothing that it opened itself. UCX's connections lead into the memory of other
// machines.
TEST_F(FarTest, AProgramInheritsNoDescriptorOfFarsidesOwn) {
  const std::vector<std::string> over_ucx{"FARSIDE_FABRIC=ucx", "UCX_TLS=tcp", "UCX_NET_DEVICES=lo"};
  const std::vector<std::string> list{
      "sh", "-c",
      "exec 7</dev/null && exec \"$@\" python3 -c 'import os; print(*sorted(map(int, os.listdir(\"/proc/self/fd\"))))'",
      "sh"};
  for (const std::vector<std::string>& environment : {std::vector<std::string>(), over_ucx}) {
    std::vector<std::string> plain{"env"};
    plain.insert(plain.end(), environment.begin(), environment.end());
    ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}, plain).code(), 0);
    plain.insert(plain.end(), list.begin(), list.end());
    const CommandEnd expected = Command(plain).wait();
    EXPECT_THAT(expected.out, HasSubstr(" 7"));
    for (const std::vector<std::string>& below : {
             std::vector<std::string>{FARSIDE_COMMAND, "far", "--local", "16M", "--trust-nodes", "--"},
             std::vector<std::string>{FARSIDE_COMMAND, "exec", "--"},
         }) {
      std::vector<std::string> command = plain;
      command.insert(command.end(), below.begin(), below.end());
      const CommandEnd end = Command(command).wait();
      EXPECT_EQ(end.out, expected.out) << testing::PrintToString(command) << end.err;
    }
    EXPECT_EQ(farside({"down"}).code(), 0);
  }
}

// No amount is named, so none is missing when the others take and give back meanwhile.
TEST_F(FarTest, SharesAPoolWithAProgramThatTakesMemory) {
  ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--far", "64M"}).code(), 0);
  const std::string again_and_again = "while " FARSIDE_FAR_PROGRAM " unmapped_parts; do echo; done";
  Command other({"/usr/bin/env", "FARSIDE_RUNTIME_DIR=" + runtime_dir().string(), FARSIDE_COMMAND, "far", "--local",
                 "2M", "--trust-nodes", "--", "sh", "-c", again_and_again});
  ASSERT_TRUE(eventually([&] { return !other.out().empty(); }));
  for (int round = 0; round < 20; ++round) {
    const CommandEnd end = far({"--local", "16M", "--trust-nodes", "--", "true"});
    EXPECT_EQ(end.code(), 0) << end.err;
  }
  ::kill(other.pid(), SIGTERM);
  EXPECT_EQ(other.wait().code(), 128 + SIGTERM);
}

// A second is long enough to wait without a word.
TEST_F(FarTest, SaysThatFarMemoryIsFull) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "8M"}).code(), 0);
  Command command({"/usr/bin/env", "FARSIDE_RUNTIME_DIR=" + runtime_dir().string(), "sh", "-c",
                   "exec " FARSIDE_COMMAND " far --local 2M --trust-nodes -- " FARSIDE_FAR_PROGRAM " threads 2>&1"});
  EXPECT_TRUE(eventually([&] { return command.out().find("far memory is full") != std::string::npos; }));
  ::kill(command.pid(), SIGTERM);
}

// The program decides what it makes of it; then everything goes.
TEST_F(FarTest, PassesSignalsOn) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  const std::vector<std::string> before = runtime_files();
  Command command({"/usr/bin/env", "FARSIDE_RUNTIME_DIR=" + runtime_dir().string(), FARSIDE_COMMAND, "far", "--local",
                   "16M", "--trust-nodes", "--", "sh", "-c",
                   "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 0.05; done"});
  ASSERT_TRUE(eventually([&] { return command.out() == "ready\n"; }));
  ::kill(command.pid(), SIGTERM);
  const CommandEnd end = command.wait();
  EXPECT_EQ(end.code(), 9) << end.err;
  EXPECT_EQ(end.out, "ready\nasked\n");
  EXPECT_EQ(runtime_files(), before);
}

// No process could fetch its pages any more.
TEST_F(FarTest, AProgramDiesWithFarsideFar) {
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  Command command({"/usr/bin/env", "FARSIDE_RUNTIME_DIR=" + runtime_dir().string(), FARSIDE_COMMAND, "far", "--local",
                   "2M", "--trust-nodes", "--", FARSIDE_FAR_PROGRAM, "sleeps"});
  ASSERT_TRUE(eventually([&] { return command.out() == "ready\n"; }));
  ::kill(command.pid(), SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(command.wait().status));
  EXPECT_TRUE(eventually([&] { return command.processes().empty(); }));
}

TEST_F(FarTest, RefusesABudgetThatCannotBe) {
  EXPECT_THAT(far({"--", "true"}).err, HasSubstr("--local"));
  for (const auto& [local, said] : std::vector<std::pair<std::string, std::string>>{
           {"0", "a program needs some"}, {"banana", "'banana' is not a size"}, {"1000000G", "are to be had"}}) {
    const CommandEnd end = far({"--local", local, "--", "true"});
    EXPECT_EQ(end.code(), 125) << end.err;
    EXPECT_THAT(end.err, HasSubstr(said));
  }
  EXPECT_EQ(far({"--local", "16M", "--mirror", "--trust-nodes", "--", "true"}).code(), 125);
  EXPECT_EQ(far({"--local", "16M"}).code(), 125);
}

TEST_F(FarTest, SaysThatThereIsNoPoolOrOneThatIsTooSmall) {
  const CommandEnd none = far({"--local", "16M", "--", "true"});
  EXPECT_EQ(none.code(), 125);
  EXPECT_THAT(none.err, HasSubstr("start one with farside up --far SIZE"));
  ASSERT_EQ(up({"--cache", "16M", "--far", "64M"}).code(), 0);
  const CommandEnd small = far({"--local", "16M", "--far", "1G", "--trust-nodes", "--", "true"});
  EXPECT_EQ(small.code(), 125);
  EXPECT_THAT(small.err, HasSubstr("the pool has 64 MiB left"));
  EXPECT_EQ(far({"--local", "16M", "--mirror", "--", "true"}).code(), 125);  // of one node
}

}  // namespace
}  // namespace farside::test
