// Teams of a thousand ranks: what the coordinator and each member need for one, in memory and descriptors.
#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "base/file_limit.h"
#include "base/wire.h"
#include "net/event_loop.h"
#include "net/runtime_dir.h"
#include "team/coordinator.h"
#include "team/host_team.h"
#include "team/launcher.h"
#include "tests/support/descriptors.h"
#include "tests/team/stranger.h"

namespace farside::test {
namespace {

using team::Rank;

/// A team whose members speak with the coordinator as they like.
class Crowd : public testing::Test {
 protected:
  static constexpr Rank kRanks = 1000;
  static constexpr std::size_t kBlobBytes = 1024;

  Crowd() {
    allow_many_files();
    coordinator_ = std::make_unique<team::Coordinator>(dir_.path() / "coordinator", secret_, kRanks);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      members_.push_back(std::make_unique<Stranger>(*coordinator_));
      sessions_.push_back(members_.back()->shake_hands(secret_, rank));
      EXPECT_EQ(members_.back()->receive_frame(sessions_.back()).kind, net::FrameKind::welcome);
    }
  }

  static std::string blob_of(Rank rank) { return std::string(kBlobBytes, static_cast<char>('a' + rank % 26)); }

  void contribute(Rank rank) {
    constexpr std::uint32_t kLimitMs = 600'000;
    const std::string fields =
        Encoder().number(std::uint32_t{0}).number(std::uint32_t{0}).number(kLimitMs).text(blob_of(rank)).take();
    members_[rank]->send(sessions_[rank].seal(net::FrameKind::contribute, fields));
  }

  net::JobDir dir_;
  net::Secret secret_ = net::Secret::create(dir_.path() / "secret");
  std::unique_ptr<team::Coordinator> coordinator_;
  std::vector<std::unique_ptr<Stranger>> members_;
  std::vector<net::Session> sessions_;
};

// What a thousand members exchange is a thousand times as much for the coordinator to send. Members that do not take it
// (they are stopped, or their network is slow) must not make it keep all that for each.
TEST_F(Crowd, IsGatheredInBoundedMemory) {
  // The blobs of all for all are 1000 MiB.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t kBound = 512 << 20;  // the sanitizers keep up to 256 MiB of what was freed, and shadows
#else
  constexpr std::uint64_t kBound = 128 << 20;
#endif
  const std::uint64_t before = resident_bytes();
  for (Rank rank = 0; rank < kRanks; ++rank) contribute(rank);
  for (const auto& member : members_) ASSERT_TRUE(member->has_news());
  const std::uint64_t after = resident_bytes();
  RecordProperty("grown_by_kib", std::to_string((after - before) / 1024));
  EXPECT_LT(after, before + kBound);

  for (Rank rank = 0; rank < kRanks; rank += 97) {
    std::vector<std::string> blobs;
    while (blobs.size() < kRanks) {
      const net::Frame frame = members_[rank]->receive_frame(sessions_[rank]);
      ASSERT_EQ(frame.kind, net::FrameKind::gathered);
      Decoder fields(frame.fields, "what was gathered");
      ASSERT_EQ(fields.number<std::uint32_t>(), 0u);  // the first exchange
      ASSERT_EQ(fields.number<Rank>(), blobs.size());
      while (!fields.rest().empty()) blobs.push_back(fields.text());
    }
    ASSERT_EQ(blobs.size(), kRanks);
    for (Rank other = 0; other < kRanks; ++other) EXPECT_EQ(blobs[other], blob_of(other));
  }
}

/// Says that it is a team of a thousand ranks, all of them in this process.
class PretendedBootstrap final : public team::Bootstrap {
 public:
  [[nodiscard]] Rank rank() const override { return 0; }
  [[nodiscard]] Rank size() const override { return 1000; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 0; }
  [[nodiscard]] std::vector<std::string> exchange(const std::string& /*tried*/, std::string blob,
                                                  net::SetupClock::time_point /*deadline*/) override {
    return std::vector<std::string>(size(), blob);
  }
  void evict(Rank /*rank*/, std::uint16_t /*incarnation*/) override {}
  void leave() override {}
};

/// Runs `body` in a process of its own, whose limits are its own.
void in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    std::fflush(stdout);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

void limit_files(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

rlim_t soft_limit() {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit.rlim_cur;
}

team::LaunchPlan plan_of(Rank ranks, std::vector<std::string> command) {
  team::LaunchPlan plan;
  plan.ranks = ranks;
  plan.command = std::move(command);
  return plan;
}

// A team that will not have enough descriptors is told so before anything else fails for want of them.
TEST(Descriptors, AreCountedBeforeATeamForms) {
  in_child([] {
    limit_files(256, 512);
    const auto make = [](net::EventLoop&, const team::MembershipNotices&, net::SetupClock::time_point) {
      return std::make_unique<PretendedBootstrap>();
    };
    try {
      const team::HostTeam team(make);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("cannot join a team of 1000 ranks: it takes 1064 open files"));
      EXPECT_THAT(error.what(), testing::HasSubstr("the limit is 512"));
    }
  });
}

TEST(Descriptors, AreCountedBeforeRanksAreLaunched) {
  in_child([] {
    limit_files(256, 512);
    EXPECT_THROW(team::Launcher(plan_of(1000, {"true"})), Error);
    const std::unique_ptr<team::Team> team = team::join_team();
    EXPECT_EQ(soft_limit(), 512U) << "joining takes what it is allowed";
    // A program that was launched begins as it would have without.
    team::Launcher launcher(plan_of(2, {"sh", "-c", "test $(ulimit -Sn) = 256"}));
    EXPECT_EQ(launcher.wait().code, 0);
  });
}

// What is to happen later happens in its order, without a descriptor and without another event.
TEST(EventLoop, RunsTasksAfterTheirDelay) {
  std::vector<int> ran;
  std::atomic<bool> done = false;
  net::EventLoop loop;
  loop.post([&] {
    loop.after(std::chrono::milliseconds(20), [&] {
      ran.push_back(2);
      loop.after(std::chrono::milliseconds(1), [&] { done = true; });
    });
    loop.after(std::chrono::milliseconds(0), [&] { ran.push_back(1); });
    loop.after(std::chrono::hours(1), [&] { ran.push_back(3); });
  });
  EXPECT_TRUE(eventually([&] { return done.load(); }));
  loop.stop();
  EXPECT_THAT(ran, testing::ElementsAre(1, 2));
}

}  // namespace
}  // namespace farside::test
