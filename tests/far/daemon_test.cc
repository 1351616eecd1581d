// Far memory of real processes, served from outside (daemon_program.cc plays the preload library's part).
#include "far/daemon/daemon.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "far/daemon/messages.h"
#include "tests/far/lent_nodes.h"
#include "tests/far/local_space.h"
#include "tests/support/command.h"
#include "tests/support/descriptors.h"
#include "tests/support/shared.h"

namespace farside::far {
namespace {

using test::Command;

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kBudget = 4 * kMiB;
constexpr std::uint64_t kArena = 1024 * kMiB;
constexpr std::uint64_t kPages = 4 * kBudget / kPageBytes;
constexpr PeerId kLoopback = 100;
constexpr std::uint64_t kTalkers = 16;

/// A daemon over one node that lends memory.
class DaemonTest : public testing::Test {
 protected:
  explicit DaemonTest(DaemonRules rules = {}, std::uint64_t lent = 128 * kMiB,
                      std::chrono::milliseconds fault_timeout = std::chrono::seconds(60))
      : fabric(make_lonely_fabric(1)),
        node(*fabric, 0, {.slab_bytes = kMiB, .slabs = static_cast<SlabNumber>(lent / kMiB)}),
        directory(std::filesystem::temp_directory_path() / ("far_daemon." + std::to_string(::getpid()))) {
    std::filesystem::create_directory(directory);
    view = node.join();
    channel = fabric->open_channel();
    auto space = std::make_unique<StripedSpace>(*fabric, kLoopback, SpaceShape{.bytes = lent, .slab_bytes = kMiB});
    space->slabs().add(node.join());
    daemon.emplace(std::move(space), options(fault_timeout), rules);
  }
  ~DaemonTest() override {
    daemon.reset();
    std::filesystem::remove_all(directory);
  }

  [[nodiscard]] DaemonOptions options(std::chrono::milliseconds fault_timeout) {
    return {.socket = directory / "daemon",
            .local_bytes = kBudget,
            .arena_bytes = kArena,
            .threshold_bytes = kMiB,
            .fault_timeout = fault_timeout,
            .profile = &profile};
  }
  [[nodiscard]] std::unique_ptr<Command> start(const std::string& mode, std::uint64_t pages = kPages,
                                               std::uint64_t seed = 1) {
    return std::make_unique<Command>(std::vector<std::string>{FAR_DAEMON_PROGRAM, mode, directory / "daemon",
                                                              std::to_string(pages), std::to_string(seed)});
  }
  // What it says on standard error is in the message of a failure.
  static int end_of(Command& program) {
    const test::CommandEnd end = program.wait();
    EXPECT_EQ(end.err, "");
    return end.code();
  }
  int run(const std::string& mode, std::uint64_t pages = kPages, std::uint64_t seed = 1) {
    return end_of(*start(mode, pages, seed));
  }
  [[nodiscard]] std::uint64_t slabs_taken() {
    return view->use(*channel, fabric->in(std::chrono::seconds(10))).value().taken;
  }
  static void await_ready(const Command& program) {
    for (int i = 0; i < 6000 && program.out().find("ready") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_NE(program.out().find("ready"), std::string::npos);
  }
  // Of the arena, as the kernel counts.
  static std::uint64_t resident_bytes(pid_t process) {
    std::ifstream maps("/proc/" + std::to_string(process) + "/smaps");
    bool is_arena = false;
    std::uint64_t bytes = 0;
    for (std::string line; std::getline(maps, line);) {
      if (line.starts_with("Size:")) is_arena = std::stoull(line.substr(5)) >= kArena / 1024;
      if (is_arena && line.starts_with("Rss:")) bytes += std::stoull(line.substr(4)) * 1024;
    }
    return bytes;
  }
  [[nodiscard]] Fd connect() const {
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    connect(socket);
    expect_welcome(socket);
    return socket;
  }
  void connect(const Fd& socket) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy((directory / "daemon").string(), address.sun_path);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  static void expect_welcome(const Fd& socket) {
    DaemonPacket welcome{};
    EXPECT_EQ(::recv(socket.get(), &welcome, sizeof welcome, 0), static_cast<ssize_t>(DaemonPacket::bytes(0)));
    EXPECT_EQ(welcome.value, kArena);
    EXPECT_EQ(welcome.extra, kMiB);
  }
  // Some may be born meanwhile.
  static void kill_family(const Command& first) {
    for (auto family = first.processes(); !family.empty(); family = first.processes()) {
      for (const pid_t process : family) ::kill(process, SIGKILL);
    }
  }
  static void stop_and_await(pid_t process) {
    ::kill(process, SIGSTOP);
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(process), &info, WSTOPPED | WEXITED | WNOWAIT), 0);
  }
  // A program's end is noticed a little later than its parent learns of it.
  void expect_nothing_left() {
    for (int i = 0; i < 2000 && (daemon->counts().bytes_here != 0 || slabs_taken() != 0); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(daemon->counts().bytes_here, 0U);
    EXPECT_EQ(daemon->counts().bytes_kept, 0U);
    EXPECT_EQ(slabs_taken(), 0U);
  }

  std::unique_ptr<Fabric> fabric;
  LentNode node;
  std::filesystem::path directory;
  std::unique_ptr<LentMemory> view;
  std::unique_ptr<Channel> channel;
  Profile profile{kBudget};  ///< so that nonsense about allocations is believed, too
  std::optional<Daemon> daemon;
};

// Four times the budget is written, read, zeroed and given away, in order and out of order.
TEST_F(DaemonTest, AProgramFindsWhatItWrote) {
  EXPECT_EQ(run("hammer"), 0);
  const PagerCounts pages = daemon->counts().pages;
  EXPECT_GT(pages.stored_pages, 1000U);
  EXPECT_GT(pages.fetched_pages, 1000U);
  EXPECT_GT(pages.ahead_hits, 0U);
  EXPECT_GT(pages.dropped_clean_pages, 0U);
  expect_nothing_left();
}

TEST_F(DaemonTest, NoWriteOfManyThreadsIsLost) { EXPECT_EQ(run("share-pages"), 0); }

// What a program's static arrays hold when it starts counts against the budget, and leaves like the rest.
TEST_F(DaemonTest, StaticArraysAreServed) {
  EXPECT_EQ(run("static"), 0);
  EXPECT_GT(daemon->counts().pages.stored_pages, 0U);
  expect_nothing_left();
}

TEST_F(DaemonTest, ExecGivesBackWhatWasThere) {
  EXPECT_EQ(run("exec", kPages / 2), 0);
  EXPECT_EQ(daemon->counts().programs, 2U);
  expect_nothing_left();
}

// Three generations, each of which goes on to read, write, zero and give away.
TEST_F(DaemonTest, ChildrenHaveWhatTheirParentsHad) {
  EXPECT_EQ(run("family", kPages / 4), 0);
  EXPECT_EQ(daemon->counts().programs, 8U);
  expect_nothing_left();
}

// What one writes after a fork the other never sees; unless slots that both have are written over.
struct OverwritingDaemonRules : DaemonTest {
  OverwritingDaemonRules() : DaemonTest({.spares_shared_slots = false}) {}
};
TEST_F(DaemonTest, AParentsWritesAreItsOwn) {
  EXPECT_EQ(run("overwrite"), 0);
  expect_nothing_left();
}
TEST_F(OverwritingDaemonRules, IsCaught) { EXPECT_EQ(start("overwrite")->wait().code(), 1); }

// Others fault between the copy of the table and the fork; no page may leave then.
struct RestlessDaemonRules : DaemonTest {
  RestlessDaemonRules() : DaemonTest({.stays_quiet = false}) {}
};
TEST_F(DaemonTest, NothingLeavesBeforeAFork) { EXPECT_EQ(run("fork-late", kPages / 2), 0); }
TEST_F(RestlessDaemonRules, IsCaught) { EXPECT_EQ(start("fork-late", kPages / 2)->wait().code(), 1); }

TEST_F(DaemonTest, WhatIsPinnedDuringAClearIsHereAfterwards) { EXPECT_EQ(run("pin-late", 4 * PageIo::kPages), 0); }

// Programs share one budget: neither the daemon's count nor what the kernel says is above it by more than 2 %.
TEST_F(DaemonTest, TheBudgetIsOfAllTogether) {
  std::vector<std::unique_ptr<Command>> programs;
  for (std::uint64_t seed = 0; seed < 3; ++seed) programs.push_back(start("hammer", kPages / 2, seed));
  // Until then a process may still be this one's copy, with a sanitizer's large mappings.
  ASSERT_TRUE(test::eventually([&] { return daemon->counts().programs == programs.size(); }));
  std::uint64_t most = 0;
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    most = std::max(most, daemon->counts().bytes_here);
    for (const auto& program : programs) stop_and_await(program->pid());  // so that no page is seen twice
    std::uint64_t resident = 0;
    for (const auto& program : programs) resident += resident_bytes(program->pid());
    most = std::max(most, resident);
    for (const auto& program : programs) ::kill(program->pid(), SIGCONT);
  }
  for (const auto& program : programs) EXPECT_EQ(end_of(*program), 0);
  EXPECT_GT(most, kBudget / 2);
  EXPECT_LE(most, kBudget + kBudget / 50);
  expect_nothing_left();
}

// A program that is stopped keeps what it has, and the others go on.
TEST_F(DaemonTest, AStoppedProgramHoldsUpNoOther) {
  const auto stopped = start("stay", kPages / 32, 0);
  await_ready(*stopped);
  ::kill(stopped->pid(), SIGSTOP);
  EXPECT_EQ(run("hammer", kPages / 2), 0);
  ::kill(stopped->pid(), SIGCONT);
  ::kill(stopped->pid(), SIGTERM);
  EXPECT_EQ(end_of(*stopped), 128 + SIGTERM);
  expect_nothing_left();
}

// Families are killed in the middle of faults, evictions, discards and forks; others are served, and all comes back.
TEST_F(DaemonTest, AKilledFamilyLeavesNothing) {
  for (std::uint64_t n = 0; n < 8; ++n) {
    const auto first = start("stay", kPages / 4, 2 * n + 1);
    const auto second = start("stay", kPages / 4, 2 * n + 2);
    await_ready(*first);
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * n));
    kill_family(*first);
    await_ready(*second);
    kill_family(*second);
  }
  EXPECT_EQ(run("hammer", kPages / 2), 0);
  expect_nothing_left();
}

// When the daemon goes, its programs end rather than find zeros.
TEST_F(DaemonTest, ProgramsEndWithTheDaemon) {
  const auto program = start("stay", kPages, 2);
  await_ready(*program);
  daemon.reset();
  EXPECT_EQ(end_of(*program), 128 + SIGKILL);
}

struct SmallSpaceTest : DaemonTest {
  SmallSpaceTest() : DaemonTest({}, 8 * kMiB, std::chrono::milliseconds(300)) {}
};
TEST_F(SmallSpaceTest, AProgramThatNeedsMoreEndsByBusError) {
  EXPECT_EQ(run("hammer"), 128 + SIGBUS);
  expect_nothing_left();
}

// Bytes that are lost end the program that asks for them, and no other.
TEST_F(DaemonTest, WhatIsLostEndsItsProgram) {
  auto owned = std::make_unique<test::LocalSpace>(64 * kMiB);
  test::LocalSpace& space = *owned;
  daemon.reset();
  daemon.emplace(std::move(owned), options(std::chrono::seconds(60)));
  const auto near = start("stay", 64, 0);
  await_ready(*near);
  const auto far = start("stay", kPages, 0);
  await_ready(*far);
  const auto asking = start("stay", kPages, 4);
  await_ready(*asking);
  space.reads_end_with.store(Status::lost);
  EXPECT_EQ(end_of(*asking), 128 + SIGBUS);
  space.reads_end_with.store(Status::done);
  EXPECT_EQ(run("hammer", kPages / 4), 0);
  for (const auto& program : {near.get(), far.get()}) {
    ::kill(program->pid(), SIGTERM);
    EXPECT_EQ(end_of(*program), 128 + SIGTERM);
  }
}

// Programs talk nonsense of all kinds while another one works: it finds all that it wrote, and nothing is left of them,
// neither memory nor descriptors.
TEST_F(DaemonTest, NonsenseHarmsNoOtherProgram) {
  const std::size_t descriptors = test::open_descriptors();
  for (std::uint64_t seed = 0; seed < kTalkers; seed += 4) {
    const auto working = start("hammer", kPages / 2, seed);
    std::vector<std::unique_ptr<Command>> talkers;
    for (std::uint64_t one = seed; one < seed + 4; ++one) {
      talkers.push_back(std::make_unique<Command>(
          std::vector<std::string>{FAR_DAEMON_NONSENSE, directory / "daemon", "64", std::to_string(one)}));
    }
    for (const auto& talker : talkers) {
      const test::CommandEnd end = talker->wait();
      EXPECT_TRUE(end.code() == 0 || end.code() == 128 + SIGKILL) << end.code() << ": " << end.err;
    }
    EXPECT_EQ(end_of(*working), 0);
  }
  expect_nothing_left();
  const Fd last = connect();  // when one comes, the daemon lets go of those who went
  EXPECT_TRUE(test::eventually([&] { return test::open_descriptors() <= descriptors + 4; }))
      << test::open_descriptors();
}

TEST_F(DaemonTest, AVisitorWaitsForADescriptor) {
  const Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  std::optional<test::NoDescriptorIsFree> shortage(std::in_place);
  connect(socket);
  pollfd answer{socket.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&answer, 1, 100), 0);
  shortage.reset();
  expect_welcome(socket);
}

// What is no packet, shows no token, or joins with something that is no userfaultfd is turned away; others are served.
TEST_F(DaemonTest, OddVisitorsAreTurnedAway) {
  const auto ask = [&](const DaemonPacket& packet, std::size_t bytes) {
    const Fd socket = connect();
    EXPECT_EQ(::send(socket.get(), &packet, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    DaemonPacket answer{};
    const bool answered = ::recv(socket.get(), &answer, sizeof answer, 0) > 0;
    return answered ? std::optional(answer.kind) : std::nullopt;
  };
  DaemonPacket packet{};
  packet.version = kDaemonVersion;
  packet.kind = DaemonPacketKind::discard;
  EXPECT_EQ(ask(packet, DaemonPacket::bytes(0)), DaemonPacketKind::refused);
  packet.kind = DaemonPacketKind::fork_begins;
  EXPECT_EQ(ask(packet, DaemonPacket::bytes(0)), DaemonPacketKind::refused);
  packet.kind = DaemonPacketKind::join;
  packet.count = 1;
  packet.ranges[0] = {kPageBytes, kPageBytes};
  EXPECT_EQ(ask(packet, DaemonPacket::bytes(1)), DaemonPacketKind::refused);
  EXPECT_EQ(ask(packet, DaemonPacket::bytes(0)), std::nullopt);  // fewer ranges than it says
  packet.ranges[0].bytes = 1;
  EXPECT_EQ(ask(packet, DaemonPacket::bytes(1)), std::nullopt);
  packet.version = kDaemonVersion + 1;
  EXPECT_EQ(ask(packet, DaemonPacket::bytes(1)), std::nullopt);
  EXPECT_EQ(ask(packet, 3), std::nullopt);
  EXPECT_EQ(run("hammer", kPages / 4), 0);
}

}  // namespace
}  // namespace farside::far
