// The node socket of a real pool, asked as a program asks.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/node/socket_probe.h"
#include "tests/support/descriptors.h"
#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

namespace node_socket = cache::node_socket;

constexpr std::uint64_t kBlock = 64 << 10;

std::string noise(std::size_t bytes, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::string text(bytes, '\0');
  for (char& letter : text) letter = static_cast<char>(random());
  return text;
}

class NodeSocketTest : public PoolTest {
 protected:
  NodeSocketTest() {
    write("file", noise(3 * kBlock + 77));
    EXPECT_EQ(up({"-n", "2", "--cache", "1M", "--block", "64K"}).code(), 0);
    cacheable_ = SocketProbe(node_socket(0)).identify(open_file(path("file"))).has_value();
  }

  void SetUp() override {
    if (!cacheable_) GTEST_SKIP() << files_dir() << " is on a file system that cannot be cached";
  }

  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return files_dir() / name; }
  [[nodiscard]] std::filesystem::path node_socket(unsigned rank) const {
    return runtime_dir() / ("node-" + std::to_string(rank) + ".sock");
  }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::uint64_t figure(unsigned rank, const std::string& name) { return status().at("nodes").at(rank).at(name); }

  bool cacheable_ = false;
};

TEST_F(NodeSocketTest, ServesAFileOutOfTheFileSystemOnceAndThenOutOfMemory) {
  EXPECT_EQ(SocketProbe(node_socket(0)).read_file(path("file")), content("file"));
  EXPECT_EQ(figure(0, "blocks_from_files"), 4U);
  EXPECT_EQ(figure(0, "bytes_from_files"), 3 * kBlock + 77);

  EXPECT_EQ(SocketProbe(node_socket(1)).read_file(path("file")), content("file"));
  EXPECT_EQ(figure(1, "blocks_from_files"), 0U);
  EXPECT_EQ(figure(1, "blocks_from_peers"), 4U);
  EXPECT_EQ(figure(1, "bytes_from_peers"), 3 * kBlock + 77);
}

// Nodes send each other no messages for it: a node that stands still, and so answers no request, is read from all the
// same.
TEST_F(NodeSocketTest, ServesOutOfTheMemoryOfANodeThatStandsStill) {
  ASSERT_EQ(SocketProbe(node_socket(0)).read_file(path("file")), content("file"));
  const pid_t still = node_processes().at(0);
  stop(still);
  EXPECT_EQ(SocketProbe(node_socket(1)).read_file(path("file")), content("file"));
  ASSERT_EQ(::kill(still, SIGCONT), 0);
  EXPECT_EQ(figure(1, "blocks_from_files"), 0U);
  EXPECT_EQ(figure(1, "blocks_from_peers"), 4U);
}

TEST_F(NodeSocketTest, ServesManyProgramsOfBothNodesAtOnceAndAsksTheFileSystemOnce) {
  const std::string expected = content("file");
  std::atomic<int> right = 0;
  std::vector<std::thread> programs;
  for (unsigned i = 0; i < 8; ++i) {
    programs.emplace_back(
        [&, i] { right += SocketProbe(node_socket(i % 2)).read_file(path("file")) == expected ? 1 : 0; });
  }
  for (std::thread& program : programs) program.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(figure(0, "blocks_from_files") + figure(1, "blocks_from_files"), 4U);
}

// The pool holds 32 blocks, the file has 48.
TEST_F(NodeSocketTest, ServesAFileThatIsLargerThanAllMemory) {
  write("large", noise(48 * kBlock));
  const std::string expected = content("large");
  for (int round = 0; round < 2; ++round) {
    for (unsigned rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(SocketProbe(node_socket(rank)).read_file(path("large")), expected)
          << "round " << round << ", node " << rank;
    }
  }
  EXPECT_GT(figure(0, "discarded"), 0U);
}

// Many times what the pool can hold; how many, FARSIDE_TEST_FILES says.
TEST_F(NodeSocketTest, ServesManySmallFiles) {
  const char* const wanted = std::getenv("FARSIDE_TEST_FILES");
  const int files = wanted == nullptr ? 3'000 : std::atoi(wanted);
  SocketProbe program(node_socket(0));
  for (int i = 0; i < files; ++i) {
    const std::string text = "file " + std::to_string(i);
    write(text, text);
    ASSERT_EQ(program.read_block(open_file(path(text)), 0), text);
  }
  EXPECT_EQ(figure(0, "blocks_from_files"), static_cast<std::uint64_t>(files));
}

TEST_F(NodeSocketTest, ServesNamesWithNewlinesAndBlanks) {
  for (const std::string name : {"two\nlines", " ", "tab\tand\rreturn", "\xff not UTF-8"}) {
    write(name, "content of " + name);
    EXPECT_EQ(SocketProbe(node_socket(0)).read_file(path(name)), "content of " + name);
  }
}

// What only the dead node held comes from the file system again.
TEST_F(NodeSocketTest, ServesWhatADeadNodeHeld) {
  const pid_t other = node_processes().at(1);
  ASSERT_EQ(SocketProbe(node_socket(1)).read_file(path("file")), content("file"));
  ::kill(other, SIGKILL);
  EXPECT_EQ(SocketProbe(node_socket(0)).read_file(path("file")), content("file"));
}

// Its memory can be read although it does not run.
TEST_F(NodeSocketTest, ServesWhatAStoppedNodeHolds) {
  const pid_t other = node_processes().at(1);
  ASSERT_EQ(SocketProbe(node_socket(1)).read_file(path("file")), content("file"));
  ::kill(other, SIGSTOP);
  EXPECT_EQ(SocketProbe(node_socket(0)).read_file(path("file")), content("file"));
  ::kill(other, SIGCONT);
  EXPECT_EQ(figure(0, "blocks_from_files"), 0U);
}

// What was asked for is the version that the program saw when it opened the file; that one is gone.
TEST_F(NodeSocketTest, SendsAroundWhenTheFileChangedSinceItWasOpened) {
  for (const bool truncated : {true, false}) {
    write("changing", noise(2 * kBlock));
    const Fd file = open_file(path("changing"));
    SocketProbe program(node_socket(0));
    const auto before = program.identify(file);
    ASSERT_TRUE(before);
    if (truncated) {
      std::filesystem::resize_file(path("changing"), kBlock / 2);
    } else {
      std::ofstream(path("changing"), std::ios::app) << "more";
    }
    const auto reply = program.acquire(file, {*before, 0});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->answer, node_socket::Answer::around);
    EXPECT_EQ(figure(0, "blocks_from_files"), 0U);
  }
}

// A file that is replaced goes on under its descriptor; the new one is another file with another content.
TEST_F(NodeSocketTest, TellsAReplacedFileFromTheOldOne) {
  const std::string before = content("file");
  const Fd old = open_file(path("file"));
  SocketProbe program(node_socket(0));
  ASSERT_EQ(program.read_block(old, 0), before.substr(0, kBlock));
  write("new", noise(before.size(), 2));
  std::filesystem::rename(path("new"), path("file"));
  EXPECT_EQ(program.read_block(open_file(path("file")), 0), content("file").substr(0, kBlock));
  EXPECT_EQ(program.read_block(old, 1), before.substr(kBlock, kBlock));
}

// Readers and a writer at once: whatever a program is handed was in the file as one version of it.
TEST_F(NodeSocketTest, NeverMixesVersionsOfAFileThatIsRewrittenWhileItIsRead) {
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (char letter = 'a'; !done; letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1)) {
      write("draft", std::string(kBlock, letter));
      std::filesystem::rename(path("draft"), path("rewritten"));
    }
  });
  SocketProbe program(node_socket(0));
  int served = 0;
  const bool enough = eventually([&] {
    if (!std::filesystem::exists(path("rewritten"))) return false;
    const auto block = program.read_block(open_file(path("rewritten")), 0);
    if (!block) return false;
    EXPECT_EQ(*block, std::string(kBlock, block->front()));
    return ++served == 200;
  });
  done = true;
  writer.join();
  EXPECT_TRUE(enough) << "served only " << served;
}

TEST_F(NodeSocketTest, SendsAroundForWhatCannotBeRead) {
  const Fd writable(::open(path("file").c_str(), O_WRONLY | O_CLOEXEC));
  const Fd by_path(::open(path("file").c_str(), O_PATH | O_CLOEXEC));
  const Fd directory = open_file(files_dir());
  const Fd pseudo = open_file("/proc/self/status");
  SocketProbe program(node_socket(0));
  const auto identity = program.identify(open_file(path("file")));
  for (const Fd* file : {&writable, &by_path, &directory, &pseudo}) {
    const auto reply = program.acquire(*file, {*identity, 0});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->answer, node_socket::Answer::around);
  }
}

TEST_F(NodeSocketTest, RefusesWhatItDoesNotUnderstandAndCloses) {
  using enum node_socket::RequestKind;
  std::vector<Fd> none;
  std::vector<Fd> one;
  one.push_back(open_file(path("file")));
  std::vector<Fd> two;
  two.push_back(open_file(path("file")));
  two.push_back(open_file(path("file")));
  const auto identity = *SocketProbe(node_socket(0)).identify(one.front());

  auto wrong_magic = SocketProbe::request(status);
  wrong_magic.magic ^= 1;
  auto wrong_version = SocketProbe::request(status);
  wrong_version.version += 1;
  auto not_zero = SocketProbe::request(status);
  not_zero.zero = 1;
  struct Odd {
    node_socket::Request request;
    const std::vector<Fd>& fds;
  };
  for (const Odd& odd : {Odd{wrong_magic, none}, Odd{wrong_version, none}, Odd{not_zero, none},
                         Odd{SocketProbe::request(node_socket::RequestKind{0}), none},
                         Odd{SocketProbe::request(node_socket::RequestKind{99}), none},
                         Odd{SocketProbe::request(acquire), none}, Odd{SocketProbe::request(identify), none},
                         Odd{SocketProbe::request(identify), two}, Odd{SocketProbe::request(map), one},
                         Odd{SocketProbe::request(status), one}, Odd{SocketProbe::request(acquire, {identity, 4}), one},
                         Odd{SocketProbe::request(acquire, {identity, ~0ULL}), one}}) {
    SocketProbe program(node_socket(0));
    const auto reply = program.ask(odd.request, odd.fds);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->answer, node_socket::Answer::refused);
    EXPECT_TRUE(program.closed());
  }
}

// What each descriptor of a process stands for.
std::multiset<std::string> open_descriptors(pid_t process) {
  std::multiset<std::string> open;
  std::error_code closed_meanwhile;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    open.insert(std::filesystem::read_symlink(entry.path(), closed_meanwhile).string());
  }
  return open;
}

TEST_F(NodeSocketTest, OutlivesNoiseAndKeepsNothingOfIt) {
  const pid_t node = node_processes().at(0);
  const auto before = open_descriptors(node);  // some of which the node may be about to close
  std::mt19937_64 random(7);
  for (int i = 0; i < 2'000; ++i) {
    SocketProbe program(node_socket(0));
    std::vector<Fd> fds;
    for (std::uint64_t count = random() % 7; count > 3; --count) fds.push_back(open_file(path("file")));
    std::string packet = noise(random() % 200, random());
    if (i % 2 == 0) {  // a right head with a random rest
      auto request = SocketProbe::request(node_socket::RequestKind{static_cast<std::uint32_t>(random() % 6)});
      packet.resize(sizeof request);
      std::memcpy(packet.data(), &request, offsetof(node_socket::Request, key));
    }
    program.send(std::as_bytes(std::span(packet)), fds);
    if (i % 3 == 0) program.send(std::as_bytes(std::span(packet)), fds);
  }
  EXPECT_EQ(SocketProbe(node_socket(0)).read_file(path("file")), content("file"));
  EXPECT_TRUE(eventually([&] { return std::ranges::includes(before, open_descriptors(node)); }))
      << "before: " << ::testing::PrintToString(before)
      << "\nafter: " << ::testing::PrintToString(open_descriptors(node));
}

// A program that only asks must not make the node wait for room to answer.
TEST_F(NodeSocketTest, DropsAProgramThatDoesNotTakeItsAnswers) {
  SocketProbe silent(node_socket(0));
  EXPECT_TRUE(eventually(
      [&] { return !silent.send(SocketProbe::request(node_socket::RequestKind::status)) && errno == EPIPE; }));
  EXPECT_EQ(SocketProbe(node_socket(0)).read_file(path("file")), content("file"));
}

// It is let in when there is one; programs that were there before are served meanwhile.
TEST_F(NodeSocketTest, AProgramWaitsForADescriptorOfTheNode) {
  const auto request = SocketProbe::request(node_socket::RequestKind::status);
  const auto is_answered = [](const SocketProbe& program, int flags = 0) {
    node_socket::StatusReply reply{};
    return ::recv(program.socket().get(), &reply, sizeof reply, flags) == static_cast<ssize_t>(sizeof reply);
  };
  SocketProbe known(node_socket(0));
  EXPECT_TRUE(known.send(request) && is_answered(known));
  for (int time = 0; time < 3; ++time) {
    std::optional<NoDescriptorIsFree> shortage(node_processes().at(0));
    SocketProbe waiting(node_socket(0));
    EXPECT_TRUE(waiting.send(request));
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(known.send(request) && is_answered(known)) << i;
    EXPECT_FALSE(is_answered(waiting, MSG_DONTWAIT));
    shortage.reset();
    EXPECT_TRUE(is_answered(waiting));
  }
}

TEST_F(NodeSocketTest, LetsOnlyItsUserIn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ::chmod(files_dir().parent_path().c_str(), 0755);
  ::chmod(runtime_dir().c_str(), 0755);
  ::chmod(node_socket(0).c_str(), 0777);
  const std::string visit =
      "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(30); s.connect('" +
      node_socket(0).string() + "'); print(s.recv(100))";
  const CommandEnd end =
      Command({"setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", "-c", visit}).wait();
  EXPECT_EQ(end.out, "b''\n") << end.err;
}

// It can read the node's memory in any case.
TEST_F(PoolTest, TurnsRootAwayThatHasAPoolOfItsOwn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start a pool of another user";
  const std::vector<std::string> as_user{"setpriv", "--reuid=65534", "--clear-groups"};
  std::vector<std::string> command = as_user;
  command.insert(command.end(), {FARSIDE_COMMAND, "--version"});
  if (Command(command).wait().code() != 0) {
    GTEST_SKIP() << "another user cannot execute the command in this build";
  }
  std::filesystem::create_directory(runtime_dir());
  ::chmod(runtime_dir().parent_path().c_str(), 0755);
  ::chmod(runtime_dir().c_str(), 0700);
  ASSERT_EQ(::chown(runtime_dir().c_str(), 65534, 65534), 0);
  ASSERT_EQ(up({"--cache", "1M", "--block", "64K"}, as_user).code(), 0);
  SocketProbe root(runtime_dir() / "node-0.sock");
  EXPECT_FALSE(root.ask(SocketProbe::request(node_socket::RequestKind::status)));
}

// A program may close its file after the answer, and count on that: for locks, for an unmount.
TEST_F(NodeSocketTest, KeepsNoDescriptorBeyondItsAnswer) {
  SocketProbe program(node_socket(0));
  const auto identity = program.identify(open_file(path("file")));
  for (int i = 0; i < 2'000; ++i) {
    Fd file = open_file(path("file"));
    ASSERT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0) << "after " << i << " answers";
    ASSERT_TRUE(program.acquire(file, {*identity, 0}));
  }
}

TEST_F(NodeSocketTest, KeepsWhatIsLentOutOfCores) {
  unsigned filter = ~0U;
  std::ifstream("/proc/" + std::to_string(node_processes().at(0)) + "/coredump_filter") >> std::hex >> filter;
  EXPECT_EQ(filter & (1U << 1U | 1U << 3U | 1U << 6U), 0U) << std::hex << filter;
}

TEST_F(NodeSocketTest, ServesAThousandProgramsAtOnce) {
  std::vector<SocketProbe> programs;
  for (int i = 0; i < 1'000; ++i) programs.emplace_back(node_socket(0));
  for (SocketProbe& program : programs) EXPECT_TRUE(program.identify(open_file(path("file"))));
}

}  // namespace
}  // namespace farside::test
