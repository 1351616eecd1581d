#include "tests/support/hosts.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "tests/support/shared.h"

namespace farside::test {

namespace {

Fd this_network() { return Fd(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)); }

void enter_network(const Fd& network) {
  if (::setns(network.get(), CLONE_NEWNET) != 0) throw errno_error("enter", "a network namespace");
}

void ip(const std::string& arguments) {
  const std::string command = "ip " + arguments;
  if (std::system(command.c_str()) != 0) throw Error({"run", command, "it failed", "install iproute2"});
}

/// Whether the device can carry something. The kernel says so a while after both ends of the cable were set up.
bool running(const std::string& device) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  device.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) != 0;
}

}  // namespace

bool Hosts::wanted() {
  const char* const hosts = std::getenv("FARSIDE_TEST_HOSTS");
  return hosts != nullptr && std::string_view(hosts) == "2";
}

std::array<Fd, 2>& Hosts::namespaces() {
  static std::array<Fd, 2> both;
  return both;
}

void Hosts::SetUp() {
  if (!wanted()) return;
  if (::geteuid() != 0) GTEST_SKIP() << "making hosts out of network namespaces takes root";
  const Fd home = this_network();
  for (Fd& host : namespaces()) {
    if (::unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "the kernel makes no network namespaces here";
    host = this_network();
  }
  // We are on host 1; the cable's other end goes to host 0.
  const std::string device = kDevice;
  ip("link add " + device + " type veth peer name " + device + " netns /proc/" + std::to_string(::getpid()) + "/fd/" +
     std::to_string(namespaces()[0].get()));
  for (unsigned host = 0; host < 2; ++host) {
    enter_network(namespaces().at(host));
    ip("link set lo up");
    ip("address add 10.99.0." + std::to_string(host + 1) + "/24 dev " + device);
    ip("link set " + device + " up");
  }
  for (const Fd& host : namespaces()) {
    enter_network(host);
    ASSERT_TRUE(eventually([&] { return running(device); }));
  }
  enter_network(home);
}

void Hosts::enter(unsigned host) {
  if (!namespaces()[0]) return;
  enter_network(namespaces().at(host));
  // UCX looks for devices in /sys, which shows those of the network it was mounted in.
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/sys", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("farside-test", "/sys", "sysfs", 0, nullptr) != 0) {
    throw errno_error("mount", "/sys");
  }
}

}  // namespace farside::test
