// address.h — what processes tell each other before they meet: how to reach a process, and how to reach a region.
//
// Byte layouts: docs/protocols/fabric.md. Both travel over channels that others may write to, so decode checks
// everything and throws Error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fabric/host/process.h"

namespace farside {

struct ProcessAddress {
  ProcessId process;
  std::string host;  ///< host_identity()
  std::string ucx;   ///< of the service worker; empty without UCX

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static ProcessAddress decode(std::string_view bytes);
};

struct RegionHandle {
  std::string name;
  std::uint64_t bytes = 0;
  int fd = -1;               ///< of the memory file, in its owner
  std::uint64_t device = 0;  ///< device and inode: so that no other file is taken for it when fd was reused
  std::uint64_t inode = 0;
  std::string ucx;  ///< UcxMemory::handle(); empty without UCX

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static RegionHandle decode(std::string_view bytes);
};

}  // namespace farside
