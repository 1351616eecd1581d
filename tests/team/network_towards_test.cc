// The network that UCX is limited to: the one that leads to where a pool's machines meet, if there is one.
#include <gtest/gtest.h>

#include "net/socket.h"

namespace farside::team {
namespace {

TEST(NetworkTowards, IsThatOfTheRoute) {
  EXPECT_EQ(net::network_towards("127.0.0.1:7777"), "127.0.0.1");
  EXPECT_EQ(net::network_towards("127.1.2.3:7777"), "127.0.0.1");
}

// UCX listens on every interface then, and says so.
TEST(NetworkTowards, IsUnknownWhereNoRouteNamesOne) {
  EXPECT_EQ(net::network_towards("0.0.0.0:7777"), "");
  EXPECT_EQ(net::network_towards("[::]:7777"), "");
  EXPECT_EQ(net::network_towards("/run/farside/coordinator"), "");
}

}  // namespace
}  // namespace farside::team
