// A member of a team by itself: in which order it tells the others, and what it does about those it cannot watch.
#include "team/host_team.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/fabric/host.h"

#include "base/wire.h"
#include "net/event_loop.h"
#include "team/bootstrap.h"
#include "team/member_card.h"
#include "tests/support/descriptors.h"
#include "tests/support/fleet.h"
#include "tests/support/shared.h"
#include "tests/team/fleet_bootstrap.h"

namespace farside::team {
namespace {

using net::EventLoop;

using namespace std::chrono_literals;

constexpr Rank kRanks = 4;

/// The other ranks of a team, as fabrics of this process, and the words where each is told who has arrived.
struct Others {
  explicit Others(Rank self) : fabrics(kRanks), arrivals(kRanks) {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (rank == self) continue;
      fabrics[rank] = make_host_fabric({.mode = FabricMode::ucx});
      arrivals[rank] = fabrics[rank]->create_region("team arrivals", kRanks * sizeof(ControlWord));
    }
  }

  [[nodiscard]] bool knows_of(Rank teller, Rank told) const {
    return arrivals[told]->word<ControlWord>(teller * sizeof(ControlWord)).load() != 0;
  }

  std::vector<std::unique_ptr<Fabric>> fabrics;
  std::vector<std::unique_ptr<Region>> arrivals;
};

/// Of a rank that comes back, so that the team is formed without a barrier, and no link is open yet.
class AmongOthers final : public Bootstrap {
 public:
  AmongOthers(Rank self, const Others& others) : self_(self), others_(others) {}

  [[nodiscard]] Rank rank() const override { return self_; }
  [[nodiscard]] Rank size() const override { return kRanks; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 1; }
  [[nodiscard]] Standing standing() const override { return {.epoch = 0, .exchanges = 3, .lost = {}}; }
  [[nodiscard]] std::vector<std::string> exchange(const std::string& tried, std::string blob,
                                                  net::SetupClock::time_point /*deadline*/) override {
    std::vector<std::string> blobs(kRanks, blob);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (rank == self_) continue;
      if (tried == "exchange addresses") blobs[rank] = others_.fabrics[rank]->address();
      const Region* const region = others_.arrivals[rank].get();
      if (tried != "allocate team arrivals") continue;
      blobs[rank] = Encoder().text(region->name()).number(region->bytes()).text(region->handle()).take();
    }
    return blobs;
  }
  void evict(Rank /*rank*/, std::uint16_t /*incarnation*/) override {}
  void leave() override {}

 private:
  const Rank self_;
  const Others& others_;
};

// Ranks that all told rank 0 first, then rank 1, would make each in turn wait for its share of one receiver's time. The
// second that a rank tells does not answer here, so the first alone comes to know of it.
TEST(HostTeam, TellsTheRankAfterItsOwnFirst) {
  test::Fleet fleet(1, [](test::Member& /*me*/) {
    ::setenv("FARSIDE_FABRIC", "ucx", 1);
    ::setenv("UCX_NET_DEVICES", "lo", 1);
    for (Rank self = 0; self < kRanks; ++self) {
      const auto after = [self](Rank steps) { return (self + steps) % kRanks; };
      const Others others(self);
      stop_answering(*others.fabrics[after(2)]);
      HostTeam team([&](EventLoop&, const MembershipNotices&, net::SetupClock::time_point) {
        return std::make_unique<AmongOthers>(self, others);
      });
      EXPECT_TRUE(test::eventually([&] {
        EXPECT_EQ(team.barrier(team.fabric().in(200ms)), Outcome::timed_out);
        return others.knows_of(self, after(1));
      }));
      EXPECT_FALSE(others.knows_of(self, after(3))) << "rank " << self;
    }
  });
  fleet.expect_success();
}

// A want of descriptors says nothing of the process that is to be watched, and must not hide its death for good.
TEST(HostTeam, NoticesTheDeathOfAProcessThatItCouldNotWatchAtFirst) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs a descriptor for each check of a type";
#endif
  test::Fleet fleet(2, [](test::Member& me) {
    EventLoop* service = nullptr;
    std::atomic<bool> may_watch = me.index() != 0;
    HostTeam team([&](EventLoop& loop, const MembershipNotices&, net::SetupClock::time_point) {
      service = &loop;
      loop.post([&] { EXPECT_TRUE(test::eventually([&] { return may_watch.load(); })); });
      return std::make_unique<test::FleetBootstrap>(me);
    });
    const pid_t other = std::stoi(me.exchange(std::to_string(::getpid()))[1]);
    if (me.index() == 1) {
      for (;;) ::pause();
    }
    std::vector<Fd> taken = test::take_descriptors();
    may_watch = true;
    std::atomic<bool> tried = false;
    service->post([&] { tried = true; });
    EXPECT_TRUE(test::eventually([&] { return tried.load(); }));
    EXPECT_TRUE(team.alive(1));
    taken.clear();
    ASSERT_EQ(::kill(other, SIGKILL), 0);
    EXPECT_TRUE(test::eventually([&] { return !team.alive(1); }));
    EXPECT_TRUE(team.has_died(1));
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(WTERMSIG(fleet.wait(1)), SIGKILL);
}

// Nor does an eviction take a process for one that has ended: it reports that its access may not be gone, and is tried
// again. Whether the rank is out of the team is then not known, unless no member can be told: so this one decides.
void evict_a_process_that_cannot_be_looked_at(bool tells_of_evictions) {
  test::Fleet fleet(2, [tells_of_evictions](test::Member& me) {
    HostTeam team([&](EventLoop&, const MembershipNotices&, net::SetupClock::time_point) {
      return std::make_unique<test::FleetBootstrap>(me, tells_of_evictions);
    });
    const pid_t other = std::stoi(me.exchange(std::to_string(::getpid()))[1]);
    if (me.index() == 1) {
      for (;;) ::pause();
    }
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, other, 0)));
    ASSERT_TRUE(process);
    EXPECT_FALSE(team.is_out(1));
    std::vector<Fd> taken = test::take_descriptors();
    EXPECT_EQ(team.evict(1, team.fabric().in(50ms)), Outcome::timed_out);
    pollfd end{process.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&end, 1, 0), 0) << "it has ended";
    EXPECT_FALSE(team.has_died(1));
    EXPECT_EQ(team.is_out(1), !tells_of_evictions);
    taken.clear();
    EXPECT_EQ(team.evict(1, team.fabric().in(60s)), Outcome::done);
    EXPECT_EQ(::poll(&end, 1, 0), 1) << "it lives";
    EXPECT_TRUE(test::eventually([&] { return team.has_died(1) && team.is_out(1); }));
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(WTERMSIG(fleet.wait(1)), SIGKILL);
}
TEST(HostTeam, ReportsNoEvictionOfAProcessThatItCannotLookAt) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs a descriptor for each check of a type";
#endif
  evict_a_process_that_cannot_be_looked_at(true);
  evict_a_process_that_cannot_be_looked_at(false);
}

/// Of a team that does not form. As the member leaves it, it is told of losses and returns of all ranks.
class TellsOnLeaving final : public Bootstrap {
 public:
  using Cards = std::function<std::vector<std::string>(const std::string& own)>;

  TellsOnLeaving(EventLoop& loop, MembershipNotices notices, Cards cards)
      : loop_(loop), notices_(std::move(notices)), cards_(std::move(cards)) {}

  [[nodiscard]] Rank rank() const override { return 0; }
  [[nodiscard]] Rank size() const override { return kRanks; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 0; }
  [[nodiscard]] std::vector<std::string> exchange(const std::string& /*tried*/, std::string blob,
                                                  net::SetupClock::time_point /*deadline*/) override {
    own_ = blob;
    return cards_(blob);
  }
  void evict(Rank /*rank*/, std::uint16_t /*incarnation*/) override {}
  void leave() override {
    std::atomic<bool> told = false;
    loop_.post([&] {
      for (Rank rank = kRanks; rank-- > 0;) {
        for (const Loss loss : {Loss::died, Loss::left, Loss::evicted}) notices_.lost(rank, loss);
        notices_.returned(rank, {own_});
      }
      told = true;
    });
    EXPECT_TRUE(test::eventually([&] { return told.load(); }));
  }

 private:
  EventLoop& loop_;
  const MembershipNotices notices_;
  const Cards cards_;
  std::string own_;
};

// Its own card cannot be made, for want of a descriptor.
TEST(HostTeam, TakesNoticesAlthoughItKnowsNothingOfItself) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs a descriptor for each check of a type";
#endif
  test::Fleet fleet(1, [](test::Member& /*me*/) {
    std::vector<Fd> taken;
    const auto form = [&] {
      const HostTeam team([&](EventLoop& loop, const MembershipNotices& notices, net::SetupClock::time_point) {
        taken = test::take_descriptors();
        return std::make_unique<TellsOnLeaving>(loop, notices, TellsOnLeaving::Cards{});
      });
    };
    EXPECT_THROW(form(), Error);
  });
  fleet.expect_success();
}

// The card of rank 1 does not fit, and those after it are not known.
TEST(HostTeam, TakesNoticesOfRanksWhoseCardsItDoesNotKnow) {
  test::Fleet fleet(1, [](test::Member& /*me*/) {
    const auto of_another_version = [](const std::string& own) {
      MemberCard other = MemberCard::decode(own);
      other.version += " and later";
      std::vector<std::string> cards(kRanks, own);
      cards[1] = other.encode();
      return cards;
    };
    const auto form = [&] {
      const HostTeam team([&](EventLoop& loop, const MembershipNotices& notices, net::SetupClock::time_point) {
        return std::make_unique<TellsOnLeaving>(loop, notices, of_another_version);
      });
    };
    EXPECT_THROW(form(), Error);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::team
