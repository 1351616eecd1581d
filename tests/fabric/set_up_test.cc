// Conformance: connecting, attaching and offering memory; what is refused; and that nothing of it is left behind.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/fabric/host.h"

#include "tests/support/descriptors.h"
#include "tests/support/mesh.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

using testing::HasSubstr;

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

// A node lives for months while its peers come and go: 3,000 times a peer is connected, used, and lost.
TEST(SetUp, ComingAndGoingLeavesNothingBehind) {
  const auto kVisits = static_cast<int>(reduced(3'000));
  const int kWarmUp = kVisits / 10;
  constexpr std::uint64_t kGrowth = 2 << 20;
  Fleet fleet(2, [&](Member& me) {
    const std::unique_ptr<Fabric> fabric = make_fabric_under_test(me);
    const std::unique_ptr<Region> region = fabric->create_region("visited", 4096);
    const std::vector<std::string> addresses = me.exchange(fabric->address());
    const std::vector<std::string> handles = me.exchange(region->handle());
    if (me.index() == 0) {
      std::unique_ptr<Channel> channel;
      const auto visit = [&](int number) {
        if (number % 10 == 0) channel = fabric->open_channel();
        fabric->connect(1, addresses[1]);
        const std::unique_ptr<RemoteRegion> remote = fabric->attach(1, handles[1]);
        ASSERT_TRUE(channel->fetch_add(remote->word<AtomicWord>(8), 1, fabric->in(kTimeout)).done());
        fabric->mark_lost(1);
      };
      for (int i = 0; i < kWarmUp; ++i) visit(i);
      const std::size_t descriptors = open_descriptors();
      const std::size_t maps = mappings();
      const std::uint64_t resident = resident_bytes();
      for (int i = kWarmUp; i < kVisits; ++i) visit(i);
      // Some connections are on their way out at either moment; leaving one at each visit would leave thousands.
      EXPECT_LE(open_descriptors(), descriptors + 32);
      EXPECT_LE(mappings(), maps + 4);
      expect_resident_below(resident + kGrowth);
    }
    me.barrier();
    EXPECT_EQ(region->word<AtomicWord>(8).load(), me.index() == 1 ? kVisits : 0);
  });
  fleet.expect_success();
}

// Memory that survives its processes fills a machine up, so its removal must not depend on a process.
TEST(SetUp, NothingIsLeftInDevShmWhenAllProcessesAreKilled) {
  // With a /dev/shm of the test's own each file counts, else those with farside's names.
  const bool is_own = test::is_mount_point("/dev/shm") && ::unshare(CLONE_NEWNS) == 0;
  if (is_own) {
    ASSERT_EQ(::mount("none", "/dev/shm", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(::mount("farside-test", "/dev/shm", "tmpfs", 0, nullptr), 0);
  }
  const std::set<std::string> before = shared_memory_files();
  const Shared<std::atomic<unsigned>> ready;
  Fleet fleet(4, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 1 << 20);
    std::uint64_t value = 1;
    EXPECT_EQ(mesh.channel->write(mesh.at(0).span(0, 8), LocalSpan(value), mesh.deadline()), Outcome::done);
    ++*ready;
    for (;;) ::pause();
  });
  ASSERT_TRUE(eventually([&] { return *ready == 4; }));
  for (unsigned i = 0; i < 4; ++i) fleet.signal(i, SIGKILL);
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(WTERMSIG(fleet.wait(i)), SIGKILL);
  EXPECT_TRUE(!is_own || std::filesystem::is_empty("/dev/shm"));
  EXPECT_EQ(shared_memory_files(), before);
}

bool refused(Fabric& fabric, PeerId peer, std::string_view address, std::string_view handle) {
  try {
    fabric.connect(peer, address);
    (void)fabric.attach(peer, handle);
    return false;
  } catch (const Error&) {
    return true;
  }
}

// Addresses and handles come from outside. Cut short, lengthened or with a byte changed they are refused, and never
// lead to other memory.
TEST(SetUp, RefusesGarbledAddressesAndHandles) {
  Fleet fleet(1, [](Member& me) {
    const std::unique_ptr<Fabric> fabric = make_fabric_under_test(me);
    const std::unique_ptr<Region> region = fabric->create_region("precious", 4096);
    const std::string address = fabric->address();
    const std::string handle = region->handle();
    PeerId peer = 0;
    ASSERT_FALSE(refused(*fabric, peer++, address, handle));

    const auto garbled = [](const std::string& text) {
      std::vector<std::string> texts{text + "x", std::string(100'000, 'x')};
      for (std::size_t i = 0; i < text.size(); ++i) {
        texts.push_back(text.substr(0, i));
        texts.push_back(text);
        texts.back()[i] = static_cast<char>(text[i] ^ 0x55);
      }
      return texts;
    };
    for (const std::string& bad : garbled(address)) EXPECT_TRUE(refused(*fabric, peer++, bad, handle));
    for (const std::string& bad : garbled(handle)) EXPECT_TRUE(refused(*fabric, peer++, address, bad));
  });
  fleet.expect_success();
}

// Pages are taken when they are first touched, and then it is too late to refuse.
TEST(SetUp, RefusesMoreMemoryThanTheMachineHas) {
  Fleet fleet(1, [](Member& me) {
    const std::unique_ptr<Fabric> fabric = make_fabric_under_test(me);
    try {
      (void)fabric->create_region("vast", std::uint64_t{1} << 45);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("vast"), HasSubstr("32 TiB"), HasSubstr("available")));
    }
    EXPECT_THROW((void)fabric->create_region("empty", 0), Error);
    EXPECT_THROW((void)fabric->create_region("", 4096), Error);
    EXPECT_THROW((void)fabric->create_region(std::string(129, 'x'), 4096), Error);
  });
  fleet.expect_success();
}

TEST(SetUp, RefusesPeersThatWereNeverConnected) {
  Fleet fleet(1, [](Member& me) {
    const std::unique_ptr<Fabric> fabric = make_fabric_under_test(me);
    const std::unique_ptr<Region> region = fabric->create_region("lonely", 4096);
    EXPECT_THROW((void)fabric->attach(3, region->handle()), Error);
    EXPECT_THROW((void)fabric->revoke(3, fabric->in(kTimeout)), Error);
    EXPECT_THROW(fabric->connect(1 << 16, fabric->address()), Error);
  });
  fleet.expect_success();
}

// Programs of the host get a region's file to map: they may read it all and write nothing.
TEST(SetUp, HandsOutAReadOnlyFileOfARegion) {
  Fleet fleet(1, [](Member& me) {
    const std::unique_ptr<Fabric> fabric = make_fabric_under_test(me);
    const std::unique_ptr<Region> region = fabric->create_region("shown", 4096);
    region->word<ControlWord>(8).store(42);
    const RegionFile file = open_region_file(*region);
    EXPECT_EQ(file.offset + region->bytes(), file.file_bytes);
    const Mapping mapping(file.read_only, file.file_bytes, Mapping::Access::read_only);
    EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(mapping.base() + file.offset + 8), 42U);
    EXPECT_THROW(Mapping(file.read_only, file.file_bytes, Mapping::Access::read_write), Error);
  });
  fleet.expect_success();
}

// A process that populates memory wants no page fault later, and to find there what was there before.
TEST(SetUp, PopulatesMemoryWithoutChangingIt) {
  Fleet fleet(1, [](Member& me) {
    constexpr std::uint64_t kBytes = 3 * kLargePageBytes + 4096;
    const std::unique_ptr<Fabric> fabric = make_fabric_under_test(me);
    const std::unique_ptr<Region> region = fabric->create_region("roomy", kBytes);
    const auto word = region->word<ControlWord>(kLargePageBytes);
    word.store(42);
    populate(*region, 0, kBytes);
    EXPECT_EQ(word.load(), 42U);
    std::array<unsigned char, kBytes / 4096> resident{};
    ASSERT_EQ(::mincore(region->span(0, kBytes).adapter_data(), kBytes, resident.data()), 0);
    EXPECT_TRUE(std::ranges::all_of(resident, [](unsigned char page) { return (page & 1U) != 0; }));
    EXPECT_THROW(populate(*region, kBytes, 1), Error);
  });
  fleet.expect_success();
}

TEST(SetUp, TakesTheModeFromTheEnvironment) {
  Fleet fleet(1, [](Member&) {
    const auto mode_for = [](const char* value) {
      ::setenv("FARSIDE_FABRIC", value, 1);
      return fabric_mode_from_environment();
    };
    EXPECT_EQ(mode_for("direct"), FabricMode::direct);
    EXPECT_EQ(mode_for("ucx"), FabricMode::ucx);
    EXPECT_EQ(mode_for(""), FabricMode::automatic);
    EXPECT_THROW(mode_for("tcp"), UsageError);
  });
  fleet.expect_success();
}

// Processes of one host know each other as such; one with a network of its own counts as another host.
TEST(SetUp, NamesTheHostByKernelUserAndNetwork) {
  const std::string here = host_identity();
  Fleet same(1, [&](Member&) { EXPECT_EQ(host_identity(), here); });
  same.expect_success();
  if (::geteuid() != 0) GTEST_SKIP() << "making a network namespace takes root";
  Fleet other(1, [&](Member&) {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    EXPECT_NE(host_identity(), here);
  });
  other.expect_success();
}

// There the same process seems to have started at another time, so it would be taken for one that has ended.
TEST(SetUp, CountsAnotherTimeNamespaceAsAnotherHost) {
  if (::geteuid() != 0) GTEST_SKIP() << "making a time namespace takes root";
  const std::string here = host_identity();
  Fleet other(1, [&](Member&) {
    ASSERT_EQ(::unshare(CLONE_NEWTIME), 0);  // for its children
    const pid_t child = ::fork();
    if (child == 0) ::_exit(host_identity() != here ? 0 : 1);
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  });
  other.expect_success();
}

}  // namespace
}  // namespace farside::test
