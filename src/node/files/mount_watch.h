// mount_watch.h — tells a mounted file system from the next one that gets its device number.
//
// A device number, and before Linux 6.8 a mount's id, is given again as soon as it is free. Two images may have the
// same inodes, sizes and times, too. What cannot outlive a file system is an inotify watch on one of its inodes:
//
//   - The kernel removes it when the file system is unmounted from its last mount point, in whatever mount namespace,
//     and does so before the device number is free.
//   - It does not keep the file system from being unmounted.
//   - An inotify instance gives each watch another number (the numbers are used again after 2^31 of them).
//
// A file system is therefore named by the lowest watch of one inotify instance that lies on it; /proc/self/fdinfo lists
// the live ones with their file systems. The nodes that one `farside up` starts inherit one instance and so agree on
// the names, also after a restart; so do those that a later one starts beside them, where it may have their instance.
// Nodes of different instances agree on none.
//
// Thread safety: every call, from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "farside/base/fd.h"

namespace farside::node {

/// An inotify instance for processes to inherit.
struct SharedMountWatch {
  Fd instance;           ///< empty when the user has no instance left
  std::string variable;  ///< "NAME=value", for the environment of those processes
};
[[nodiscard]] SharedMountWatch share_mount_watch();
/// That of a node that runs, which inherited it; nothing when the kernel does not let this process have it. `pidfd` is
/// that of the process.
[[nodiscard]] std::optional<SharedMountWatch> take_mount_watch(pid_t process, const Fd& pidfd);

class MountWatch {
 public:
  /// With the instance that was inherited, else with one of its own. Without either, nothing gets a name.
  MountWatch();

  struct Mount {
    std::uint64_t name;
    std::uint32_t watch;
  };

  /// The mounted file system of the open `inode`, whose owner or group must let this process read it. Nothing when the
  /// kernel refuses a watch.
  [[nodiscard]] std::optional<Mount> find(const Fd& inode) const;

  /// Whether `mount` was never unmounted since find() returned it.
  [[nodiscard]] bool is_mounted(const Mount& mount) const;

 private:
  [[nodiscard]] std::string watches() const;

  Fd instance_;
  Fd table_;  // of its watches
  std::uint64_t nonce_ = 0;
};

}  // namespace farside::node
