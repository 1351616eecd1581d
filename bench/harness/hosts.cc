#include "bench/harness/hosts.h"

namespace farside::bench {

namespace {

// UCX looks for devices in /sys, which shows those of the network that it was mounted in.
constexpr const char* kUser = R"(
mount -t sysfs none /sys
ip link set lo up
echo ready; read asked; echo $$; exec cat
)";

// The cable's other end goes to the process that is named. The kernel says a while later that either end can
// carry something.
constexpr const char* kLender = R"(
mount -t sysfs none /sys
ip link set lo up
ip link add far0 type veth peer name far0 netns "$1"
ip address add 10.99.0.2/24 dev far0
ip link set far0 up
enter="nsenter --target=$1 --net --mount"
$enter sh -ec 'ip address add 10.99.0.1/24 dev far0; ip link set far0 up'
for host in '' "$enter"; do
  until $host grep -q up /sys/class/net/far0/operstate; do sleep 0.01; done
done
echo ready; read asked; echo $$; exec cat
)";

Contender::Program holder(const char* script, std::vector<std::string> more = {}) {
  std::vector<std::string> command{"unshare", "--net", "--mount", "sh", "-ec", script, "sh"};
  command.insert(command.end(), more.begin(), more.end());
  return {.command = std::move(command), .timeout = std::chrono::seconds(30)};
}

}  // namespace

Hosts::Hosts()
    : user_("a host of its own", holder(kUser)),
      user_process_(user_.ask("who are you")),
      lender_("another host", holder(kLender, {user_process_})),
      lender_process_(lender_.ask("who are you")) {}

Fabric Hosts::fabric() const {
  return {.name = "ucx/TCP between hosts",
          .environment = {{"FARSIDE_FABRIC", "ucx"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "far0"}},
          .on_lender = enter(lender_process_),
          .on_user = enter(user_process_)};
}

std::vector<std::string> Hosts::enter(const std::string& process) {
  return {"nsenter", "--target=" + process, "--net", "--mount"};
}

}  // namespace farside::bench
