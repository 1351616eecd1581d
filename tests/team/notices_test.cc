// A team and what its bootstrap tells it, when that makes no sense.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "team/bootstrap.h"
#include "team/event_loop.h"
#include "team/host_team.h"
#include "tests/support/shared.h"

namespace farside {
namespace {

/// Of a team of two, in which the other rank is this process as well.
class MirrorBootstrap final : public Bootstrap {
 public:
  [[nodiscard]] Rank rank() const override { return 0; }
  [[nodiscard]] Rank size() const override { return 2; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 1; }
  [[nodiscard]] Standing standing() const override { return {.epoch = 0, .exchanges = 3, .lost = {}}; }
  [[nodiscard]] std::vector<std::string> exchange(const std::string& /*tried*/, std::string blob,
                                                  SetupClock::time_point /*deadline*/) override {
    return {blob, blob};
  }
  void evict(Rank /*rank*/) override {}
  void leave() override {}
};

// Whoever comes back with less than it takes to reach it stays lost; it ends nobody.
TEST(TeamNotices, AReturnThatGivesTooLittleIsNone) {
  EventLoop* service = nullptr;
  MembershipNotices notices;
  HostTeam team([&](EventLoop& loop, MembershipNotices told, SetupClock::time_point /*deadline*/) {
    service = &loop;
    notices = std::move(told);
    return std::make_unique<MirrorBootstrap>();
  });
  ASSERT_TRUE(team.alive(1));
  service->post([&] { notices.returned(1, {}); });
  EXPECT_TRUE(test::eventually([&] { return !team.alive(1); }));
}

}  // namespace
}  // namespace farside
