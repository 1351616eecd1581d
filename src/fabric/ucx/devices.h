// devices.h — what UCX can talk over on this machine, without opening anything for good.
#pragma once

#include <string>
#include <vector>

namespace farside {

struct UcxDevice {
  std::string transport;  ///< "tcp", "rc_verbs", "posix", ...
  std::string device;     ///< "eth0", "mlx5_0:1", ...
  bool network;           ///< reaches other hosts
};

/// The devices that belong to the network of `address`, one of this host, as UCX_NET_DEVICES lists them: the interface
/// that has it, and every RDMA NIC, which has its own network and opens no port of this host's. Throws Error when no
/// interface has that address.
[[nodiscard]] std::string devices_of_network(const std::string& address);

[[nodiscard]] std::string ucx_version();
[[nodiscard]] std::vector<UcxDevice> list_ucx_devices();

}  // namespace farside
