// A team and what its bootstrap tells it, when that makes no sense.
#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/event_loop.h"
#include "team/bootstrap.h"
#include "team/host_team.h"
#include "tests/support/descriptors.h"
#include "tests/support/fleet.h"
#include "tests/support/mesh.h"
#include "tests/support/shared.h"

namespace farside::team {
namespace {

/// Of a team of two, in which the other rank is this process as well.
class MirrorBootstrap final : public Bootstrap {
 public:
  [[nodiscard]] Rank rank() const override { return 0; }
  [[nodiscard]] Rank size() const override { return 2; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 1; }
  [[nodiscard]] Standing standing() const override { return {.epoch = 0, .exchanges = 3, .lost = {}}; }
  [[nodiscard]] std::vector<std::string> exchange(const std::string& /*tried*/, std::string blob,
                                                  net::SetupClock::time_point /*deadline*/) override {
    return {blob, blob};
  }
  void evict(Rank /*rank*/, std::uint16_t /*incarnation*/) override {}
  void leave() override {}
};

// A rank that comes back with less than it takes to reach it stays lost; it ends no other process.
TEST(TeamNotices, AReturnThatGivesTooLittleIsNone) {
  net::EventLoop* service = nullptr;
  MembershipNotices notices;
  HostTeam team([&](net::EventLoop& loop, MembershipNotices told, net::SetupClock::time_point /*deadline*/) {
    service = &loop;
    notices = std::move(told);
    return std::make_unique<MirrorBootstrap>();
  });
  ASSERT_TRUE(team.alive(1));
  service->post([&] { notices.returned(1, {}); });
  EXPECT_TRUE(test::eventually([&] { return !team.alive(1); }));
}

rlim_t address_space_in_use() {
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  sizes >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

/// Of three processes: the first is rank 0, the others are rank 1, one after the other.
class SharedRank final : public Bootstrap {
 public:
  SharedRank(test::Member& me, std::vector<std::string>& successors) : me_(me), successors_(successors) {}

  [[nodiscard]] Rank rank() const override { return me_.index() == 0 ? 0 : 1; }
  [[nodiscard]] Rank size() const override { return 2; }
  [[nodiscard]] std::uint16_t incarnation() const override { return me_.index() == 2 ? 1 : 0; }
  [[nodiscard]] Standing standing() const override {
    return me_.index() == 2 ? Standing{.epoch = 1, .exchanges = 3, .lost = {1}} : Standing{};
  }
  [[nodiscard]] std::vector<std::string> exchange(const std::string& /*tried*/, std::string blob,
                                                  net::SetupClock::time_point /*deadline*/) override {
    const std::vector<std::string> all = me_.exchange(blob);
    successors_.push_back(all[2]);
    return {all[0], all[me_.index() == 2 ? 2 : 1]};
  }
  void evict(Rank /*rank*/, std::uint16_t /*incarnation*/) override {}
  void leave() override {}

 private:
  test::Member& me_;
  std::vector<std::string>& successors_;
};

// Nor does one whose memory the survivor cannot map for a while; it is not taken for the predecessor when that is tried
// again.
TEST(TeamNotices, AReturnIsTriedAgainUntilItsMemoryCanBeReached) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow has no room under a limit of memory";
#endif
  const test::Shared<std::atomic<bool>> over;
  test::Fleet fleet(3, [&over](test::Member& me) {
    net::EventLoop* service = nullptr;
    MembershipNotices notices;
    std::vector<std::string> successors;
    HostTeam team([&](net::EventLoop& loop, MembershipNotices told, net::SetupClock::time_point /*deadline*/) {
      service = &loop;
      notices = std::move(told);
      return std::make_unique<SharedRank>(me, successors);
    });
    constexpr std::uint64_t kBytes = std::uint64_t{1} << 32;
    const auto region = team.allocate("large", kBytes);
    me.barrier();
    if (me.index() != 0) {
      EXPECT_TRUE(test::eventually([&] { return over->load(); }));
      return;
    }
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
    const rlimit scarce{.rlim_cur = address_space_in_use() + kBytes / 2, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &scarce), 0);
    std::atomic<bool> tried = false;
    service->post([&] {
      notices.returned(1, successors);
      tried = true;
    });
    EXPECT_TRUE(test::eventually([&] { return tried.load(); }));
    EXPECT_FALSE(team.alive(1));
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
    const auto channel = team.fabric().open_channel();
    const auto reaches_it = [&] {
      const Deadline deadline = team.fabric().in(test::kTimeout);
      return channel->store(region->of(1).word<ControlWord>(0), 1, deadline) == Outcome::done;
    };
    EXPECT_TRUE(test::eventually(reaches_it));
    *over = true;
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(WTERMSIG(fleet.wait(1)), SIGKILL);
  EXPECT_EQ(fleet.wait(2), 0);
}

// A survivor that cannot take the predecessor's access away in time tries again: its successor does not stay lost.
TEST(TeamNotices, AReturnIsTriedAgainUntilThePredecessorsAccessIsGone) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs a descriptor for each check of a type";
#endif
  const test::Shared<std::atomic<bool>> over;
  test::Fleet fleet(3, [&over](test::Member& me) {
    net::EventLoop* service = nullptr;
    MembershipNotices notices;
    std::vector<std::string> successors;
    HostTeam team([&](net::EventLoop& loop, MembershipNotices told, net::SetupClock::time_point /*deadline*/) {
      service = &loop;
      notices = std::move(told);
      return std::make_unique<SharedRank>(me, successors);
    });
    me.barrier();
    if (me.index() != 0) {
      EXPECT_TRUE(test::eventually([&] { return over->load(); }));
      return;
    }
    std::vector<Fd> taken = test::take_descriptors();
    std::atomic<bool> tried = false;
    service->post([&] {
      notices.returned(1, successors);
      tried = true;
    });
    EXPECT_TRUE(test::eventually([&] { return tried.load(); }));
    EXPECT_FALSE(team.alive(1));
    taken.clear();
    EXPECT_TRUE(test::eventually([&] { return team.alive(1); }));
    *over = true;
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(WTERMSIG(fleet.wait(1)), SIGKILL);
  EXPECT_EQ(fleet.wait(2), 0);
}

}  // namespace
}  // namespace farside::team
