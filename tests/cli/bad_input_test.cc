// Used wrongly (exit code 2) or on a machine that has not enough (exit code 1): each time the command says what was
// tried, why it failed and what to do, and leaves nothing behind.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/descriptors.h"
#include "tests/support/pool.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // reserves terabytes of addresses
#else
constexpr bool kSanitized = false;
#endif

struct Wrong {
  std::vector<std::string> arguments;
  std::string said;
};

TEST_F(PoolTest, RefusesWhatIsNotAnOption) {
  for (const Wrong& wrong : std::vector<Wrong>{
           {{}, "name a command"},
           {{"dance"}, "dance"},
           {{"up", "--colour", "red"}, "farside: cannot understand the arguments of farside up: "},
           {{"up", "--colour", "red"}, "--colour; see farside up --help"},
           {{"up", "--kv-dir", "x"}, "farside up: --kv-dir requires --kv; see"},
           {{"up", "-n", "0"}, "-n"},
           {{"up", "-n", "many"}, "-n"},
           {{"up", "-n", "65"}, "-n"},
           {{"up", "--cache", "banana"}, "--cache: 'banana' is not a size"},
           {{"up", "--cache", "12Q"}, "'12Q' is not a size"},
           {{"up", "--cache", "-1G"}, "--cache"},
           {{"up", "--cache", ""}, "--cache"},
           {{"up", "--cache", "1M", "--block", "1M"}, "--cache 1 MiB: it is out of range"},
           {{"up", "--block", "3K"}, "--block 3 KiB: it is out of range"},
           {{"up", "--block", "1G"}, "--block 1 GiB: it is out of range"},
           {{"up", "--groups", "2"}, "--groups 2: it is out of range"},
           {{"up", "--groups", "-1"}, "--groups"},
           {{"up", "--singlet-ratio", "1.5"}, "--singlet-ratio"},
           {{"up", "--singlet-ratio", "half"}, "--singlet-ratio"},
           {{"up", "--nodes", "2"}, "cannot use --nodes: it is for pools of several machines, and neither"},
           {{"up", "--secret", "x"}, "cannot use --secret: it is for pools of several machines, and neither"},
           {{"up", "--silence", "3s"}, "farside up: --silence requires --listen; see"},
           {{"status", "--yaml"}, "--yaml"},
           {{"down", "now"}, "now"},
       }) {
    const CommandEnd end = farside(wrong.arguments);
    EXPECT_EQ(end.code(), 2) << wrong.said << '\n' << end.out << end.err;
    EXPECT_THAT(end.err, HasSubstr(wrong.said));
  }
  EXPECT_FALSE(std::filesystem::exists(runtime_dir()) && !runtime_files().empty());
}

TEST_F(PoolTest, EveryCommandHelpsWithAnExample) {
  for (const char* command : {"up", "status", "down", "exec", "run", "kv", "bench", "doctor"}) {
    const CommandEnd end = farside({command, "--help"});
    EXPECT_EQ(end.code(), 0) << command;
    EXPECT_THAT(end.out, HasSubstr("Example:\n  farside " + std::string(command)));
  }
}

TEST_F(PoolTest, NodesAreNotForPeopleToStart) {
  EXPECT_THAT(farside({"--help"}).out, ::testing::Not(HasSubstr("node  ")));
}

TEST_F(PoolTest, TellsItsVersion) {
  const CommandEnd end = farside({"--version"});
  EXPECT_EQ(end.code(), 0);
  EXPECT_THAT(end.out, ::testing::StartsWith("farside "));
}

TEST_F(PoolTest, RefusesMoreMemoryThanThereIs) {
  const CommandEnd end = up({"-n", "2", "--cache", "100T", "--block", "64M"});
  EXPECT_EQ(end.code(), 1);
  EXPECT_THAT(end.err, HasSubstr("are available"));
  EXPECT_THAT(end.err, HasSubstr("choose less with --cache"));
  EXPECT_THAT(pool_processes(), IsEmpty());
}

// What a node has to say reaches the caller of `farside up`.
TEST_F(PoolTest, SaysWhyANodeDidNotStart) {
  if (kSanitized) GTEST_SKIP() << "a sanitized program needs more addresses than any limit";
  const CommandEnd end = up({"-n", "2", "--cache", "512M"}, {"prlimit", "--as=300000000"});
  EXPECT_EQ(end.code(), 1);
  EXPECT_THAT(end.err, HasSubstr("cannot start"));
  EXPECT_THAT(end.err, HasSubstr("Cannot allocate memory"));
  EXPECT_THAT(pool_processes(), IsEmpty());
  EXPECT_THAT(runtime_files(), IsEmpty());
}

// Nothing on one machine locks memory; only InfiniBand and RoCE do.
TEST_F(PoolTest, NeedsNoLockedMemory) {
  const CommandEnd end = up({"--cache", "16M"}, {"prlimit", "--memlock=0"});
  EXPECT_EQ(end.code(), 0) << end.err;
}

// The nodes' memory has no name anywhere, so no full file system is in its way.
TEST_F(PoolTest, NeedsNoRoomInSharedMemoryFiles) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a small /dev/shm";
  if (!is_mount_point("/dev/shm")) GTEST_SKIP() << "/dev/shm is no mount point here";
  const std::string fill =
      "mount --make-private /dev/shm && mount -t tmpfs -o size=4k none /dev/shm && "
      "head -c 4096 /dev/zero > /dev/shm/full && exec \"$@\"";
  const CommandEnd end =
      up({"-n", "2", "--cache", "16M"}, {"unshare", "-m", "--propagation", "unchanged", "sh", "-c", fill, "sh"});
  EXPECT_EQ(end.code(), 0) << end.err;
  EXPECT_EQ(status().at("nodes").at(1).at("state"), "up");
}

TEST_F(PoolTest, NeedsARuntimeDirectoryOfItsOwn) {
  std::ofstream(files_dir() / "file") << "no directory";
  ::setenv("FARSIDE_RUNTIME_DIR", (files_dir() / "file").c_str(), 1);
  EXPECT_THAT(farside({"up"}).err, HasSubstr("it is not a directory"));
  EXPECT_EQ(farside({"status"}).code(), 2);
  const CommandEnd doctor = farside({"doctor"});
  EXPECT_EQ(doctor.code(), 1);
  EXPECT_THAT(doctor.out, HasSubstr("it is not a directory"));

  ::setenv("FARSIDE_RUNTIME_DIR", "/nowhere/at/all", 1);
  const CommandEnd missing = farside({"up"});
  EXPECT_EQ(missing.code(), 1);
  EXPECT_THAT(missing.err, HasSubstr("FARSIDE_RUNTIME_DIR"));

  std::filesystem::create_directory(files_dir() / "open");
  ::chmod((files_dir() / "open").c_str(), 0755);
  ::setenv("FARSIDE_RUNTIME_DIR", (files_dir() / "open").c_str(), 1);
  EXPECT_THAT(farside({"up"}).err, HasSubstr("others may enter it"));
}

// A program with rights that its caller lacks would write where that caller likes.
TEST_F(PoolTest, TakesNoRuntimeDirectoryFromACallerWithOtherRights) {
  if (kSanitized || ::geteuid() != 0) GTEST_SKIP() << "only root can make another user's program";
  const std::filesystem::path program = files_dir() / "farside";
  std::filesystem::copy_file(FARSIDE_COMMAND, program);
  ASSERT_EQ(::chown(program.c_str(), 65534, 65534), 0);
  ::chmod(program.c_str(), 04755);
  ::chmod(files_dir().parent_path().c_str(), 0755);
  std::filesystem::create_directory(runtime_dir());
  ASSERT_EQ(::chown(runtime_dir().c_str(), 65534, 65534), 0);
  ::chmod(runtime_dir().c_str(), 0750);
  const CommandEnd end = Command({program, "status"}).wait();
  if (end.code() == 127) GTEST_SKIP() << "another user cannot get at the library in this build";
  EXPECT_THAT(end.err, ::testing::Not(HasSubstr(runtime_dir())));
  std::error_code in_use;
  std::filesystem::remove("/tmp/farside-65534", in_use);  // which it makes in its place
}

// Sockets have short names; a long path must not end in a strange place.
TEST_F(PoolTest, RefusesARuntimeDirectoryThatIsTooDeep) {
  const std::filesystem::path deep = files_dir() / std::string(100, 'd');
  ::setenv("FARSIDE_RUNTIME_DIR", deep.c_str(), 1);
  const CommandEnd end = up({"--cache", "16M"});
  EXPECT_EQ(end.code(), 1);
  EXPECT_THAT(end.err, HasSubstr("path"));
  EXPECT_THAT(end.err, HasSubstr("FARSIDE_RUNTIME_DIR"));
  EXPECT_THAT(pool_processes(), IsEmpty());
}

TEST_F(PoolTest, TellsWhatTheMachineHas) {
  const CommandEnd end = farside({"doctor"});
  EXPECT_EQ(end.code(), 0) << end.out;
  for (const char* word : {"direct", "ucx", "open files", "locked memory", "memory", "runtime directory", "pidfd",
                           "userfaultfd", "nbd", "fuse"}) {
    EXPECT_THAT(end.out, HasSubstr(word));
  }
}

TEST_F(PoolTest, TellsWhatToChange) {
  const CommandEnd end = Command({"prlimit", "--memlock=65536", "--nofile=256:256", FARSIDE_COMMAND, "doctor"}).wait();
  EXPECT_EQ(end.code(), 0) << end.out;
  EXPECT_THAT(end.out, HasSubstr("64 KiB"));
  EXPECT_THAT(end.out, HasSubstr("ulimit -l unlimited"));
  EXPECT_THAT(end.out, HasSubstr("ulimit -Hn"));
}

}  // namespace
}  // namespace farside::test
