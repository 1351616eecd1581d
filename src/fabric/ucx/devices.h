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

[[nodiscard]] std::string ucx_version();
[[nodiscard]] std::vector<UcxDevice> list_ucx_devices();

}  // namespace farside
