// What a server's welcome may say.
#include "kv/service/link_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

namespace farside::kv {
namespace {

Welcome welcome_of_a_standby() {
  Welcome welcome;
  welcome.hello = {.version = "1", .mode = FabricMode::direct, .remote_peers = false, .fabric = "an address"};
  welcome.self = 1;
  welcome.seat = 1;
  welcome.servers = {"kv-0", "kv-1"};
  welcome.standbys = {"kv-standby-0", "kv-standby-1"};
  welcome.memory = "memory";
  welcome.bells = "bells";
  return welcome;
}

TEST(KvLinkMessages, CarryTheWelcomeOfAStandby) {
  const Welcome welcome = decode_welcome(welcome_of_a_standby().encode());
  EXPECT_EQ(welcome.self, 1U);
  EXPECT_EQ(welcome.seat, 1U);
  EXPECT_TRUE(welcome.follows());
  EXPECT_EQ(welcome.servers, welcome_of_a_standby().servers);
  EXPECT_EQ(welcome.standbys, welcome_of_a_standby().standbys);
}

/// Why that is no welcome.
std::string refusal_of(const Welcome& welcome) try {
  (void)decode_welcome(welcome.encode());
  return "none";
} catch (const Error& error) {
  return error.failure().why;
}

// A client looks its address up among the standbys.
TEST(KvLinkMessages, RefuseAStandbyThatIsNotAmongTheStandbys) {
  Welcome without_any = welcome_of_a_standby();
  without_any.standbys.clear();
  EXPECT_EQ(refusal_of(without_any), "it is a standby where there are none");
  without_any.seat = 0;
  EXPECT_EQ(refusal_of(without_any), "none") << "a server need not have a standby";
  Welcome with_one = welcome_of_a_standby();
  with_one.standbys.pop_back();
  EXPECT_EQ(refusal_of(with_one), "some servers have no standby");
  Welcome beyond = welcome_of_a_standby();
  beyond.self = 2;
  EXPECT_EQ(refusal_of(beyond), "its number is not that of a server");
  Welcome third = welcome_of_a_standby();
  third.seat = 2;
  EXPECT_EQ(refusal_of(third), "its partition has no such seat");
}

}  // namespace
}  // namespace farside::kv
