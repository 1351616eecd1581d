// On which network interfaces the UCX engine listens, and what it says of them.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "farside/base/error.h"

#include "fabric/ucx/devices.h"
#include "tests/fabric/ucx_node.h"

namespace farside::test {
namespace {

/// Whether that socket of this process takes connections that do not come from this host alone.
bool is_open_to_other_hosts(int fd) {
  int listens = 0;
  socklen_t length = sizeof listens;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) return false;
  sockaddr_storage bound{};
  length = sizeof bound;
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length), 0);
  if (bound.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(bound).sin_addr.s_addr != htonl(INADDR_LOOPBACK);
  }
  return bound.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(bound).sin6_addr) == 0;
}

int sockets_open_to_other_hosts() {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += is_open_to_other_hosts(std::stoi(file.path().filename())) ? 1 : 0;
  }
  return count;
}

TEST(UcxEngine, ListensOnTheNetworkThatItIsGivenAndOnNoOther) {
  Fleet fleet(1, [](Member& /*me*/) {
    ::unsetenv("UCX_NET_DEVICES");
    ::setenv("UCX_TLS", "tcp", 1);
    const UcxEngine engine([] {}, {.network = "127.0.0.1"});
    EXPECT_EQ(sockets_open_to_other_hosts(), 0);

    ::setenv("UCX_NET_DEVICES", "all", 1);
    const UcxEngine everywhere([] {}, {.network = "127.0.0.1"});
    const auto devices = list_ucx_devices();
    const bool has_others = std::ranges::any_of(
        devices, [](const UcxDevice& device) { return device.transport == "tcp" && device.device != "lo"; });
    EXPECT_EQ(sockets_open_to_other_hosts() != 0, has_others);
  });
  fleet.expect_success();
}

// Whatever reaches such a port can overwrite memory, so an administrator must learn of it.
TEST(UcxEngine, WarnsThatItListensOnEveryInterfaceUnlessThatWasChosen) {
  Fleet fleet(1, [](Member& /*me*/) {
    const auto log_of = [](const HostFabricOptions& options) {
      testing::internal::CaptureStderr();
      {
        const UcxEngine engine([] {}, options);
      }
      return testing::internal::GetCapturedStderr();
    };
    constexpr const char* kWarning = "UCX listens on every network interface";
    ::setenv("UCX_TLS", "tcp", 1);
    ::unsetenv("UCX_NET_DEVICES");
    const std::string log = log_of({});
    EXPECT_NE(log.find(kWarning), std::string::npos) << log;
    EXPECT_NE(log.find("set UCX_NET_DEVICES"), std::string::npos) << log;
    EXPECT_EQ(log_of({.warn_of_all_interfaces = false}).find(kWarning), std::string::npos);
    EXPECT_EQ(log_of({.network = "127.0.0.1"}).find(kWarning), std::string::npos);
    for (const char* chosen : {"all", "lo"}) {
      ::setenv("UCX_NET_DEVICES", chosen, 1);
      EXPECT_EQ(log_of({}).find(kWarning), std::string::npos) << chosen;
    }
  });
  fleet.expect_success();
}

TEST(UcxEngine, SaysWhichNetworkItDoesNotFind) {
  Fleet fleet(1, [](Member& /*me*/) {
    ::unsetenv("UCX_NET_DEVICES");
    try {
      const UcxEngine engine([] {}, {.network = "192.0.2.1"});
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("192.0.2.1"), std::string::npos);
      EXPECT_NE(error.failure().remedy.find("UCX_NET_DEVICES"), std::string::npos);
    }
  });
  fleet.expect_success();
}

TEST(UcxEngine, SaysWhatToDoWhenNoDeviceIsUsable) {
  Fleet fleet(1, [](Member& /*me*/) {
    ::setenv("UCX_NET_DEVICES", "nothing0", 1);
    try {
      const UcxEngine engine([] {});
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("nothing0"), std::string::npos);
      EXPECT_NE(error.failure().remedy.find("UCX_NET_DEVICES"), std::string::npos);
    }
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
