// file_system.h — which version of which file a descriptor stands for, named alike on every host that can read it.
//
// A file system's tag is a hash of
//   network types (nfs, lustre, ...)   type and source: hosts that mount the same export derive the same tag
//   local types and FUSE               besides these the host's boot id and st_dev: another host's disk, or another
//                                      host's private FUSE mount of the same name, is never taken for ours
// Everything else cannot be cached. Pseudo file systems make up their bytes when they are read; memory file systems
// (tmpfs) are in memory already, and a store through a mapping does not move their files' times.
//
// A device number or mount id can be used again after an unmount. What was derived for a mount is therefore kept only
// until the mount table changes: the kernel signals that on /proc/self/mountinfo before a file of a new mount can be
// opened, and an open descriptor keeps its mount's id and device from being reused.
//
// A mount that the table does not name (another namespace's, or the root of a chroot that is no mount point) is found
// by its device: if that is mounted here, too, it has the same tag, and a disk is cached in any case: only file systems
// without one have a device number whose major part is zero.
//
// Thread safety: every call, from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "farside/base/fd.h"
#include "farside/cache/block.h"

namespace farside {

/// One line of mountinfo(5), as far as it names a file system.
struct MountLine {
  std::uint64_t mount_id;
  std::uint64_t device;
  std::string_view type;
  std::string_view source;
};

/// Nothing when the line is not one of mountinfo's.
[[nodiscard]] std::optional<MountLine> parse_mount_line(std::string_view line);

/// The tag; nothing when files of this type cannot be cached. `host_device` names the file system within its host.
[[nodiscard]] std::optional<std::uint64_t> file_system_tag(std::string_view type, std::string_view source,
                                                           std::string_view host_device);

class FileSystems {
 public:
  FileSystems();

  /// Nothing when the descriptor is not that of a regular file on a file system that can be cached.
  [[nodiscard]] std::optional<FileIdentity> identify(const Fd& file);

 private:
  using MountKey = std::pair<std::uint64_t, std::uint64_t>;  // mount id, device

  std::optional<std::uint64_t> tag(MountKey mount);
  [[nodiscard]] std::optional<std::uint64_t> derive(MountKey mount) const;
  [[nodiscard]] bool mounts_changed() const;

  std::string boot_id_;
  Fd mount_table_;  // polled for changes, never read
  std::mutex mutex_;
  std::map<MountKey, std::optional<std::uint64_t>> tags_;
};

}  // namespace farside
