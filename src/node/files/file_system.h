// file_system.h — which version of which file a descriptor stands for, named alike on every host that can read it.
//
// A file system's tag is a hash of
//   network types (nfs, lustre, ...)   type and source: hosts that mount the same export derive the same tag
//   local types and FUSE               besides these the host's boot id, st_dev, and the mount's name (mount_watch.h):
//                                      another host's disk or private FUSE mount of the same name is never taken for
//                                      ours, nor is what is mounted at the same place later
// Everything else cannot be cached. Pseudo file systems make up their bytes when they are read; memory file systems
// (tmpfs) are in memory already, and a store through a mapping does not move their files' times.
//
// The tag derived for a mount is kept until the mount table changes, which the kernel signals on /proc/self/mountinfo,
// or the mount's watch is gone. An open descriptor keeps its mount's id and device from being used again.
//
// A mount that the table does not name (another namespace's, or the root of a chroot that is no mount point) is found
// by its device: if that is mounted here, too, it has the same tag, and a disk is cached in any case: only file systems
// without one have a device number whose major part is zero.
//
// Thread safety: every call, from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "farside/base/fd.h"
#include "farside/cache/block.h"

#include "base/mutex.h"
#include "node/files/mount_watch.h"

namespace farside::node {

/// One line of mountinfo(5), as far as it names a file system.
struct MountLine {
  std::uint64_t mount_id;
  std::uint64_t device;
  std::string_view mount_point;  ///< with \040 and the like for blanks
  std::string_view type;
  std::string_view source;
  std::string_view options;  ///< of the file system
};

/// Nothing when the line is not one of mountinfo's.
[[nodiscard]] std::optional<MountLine> parse_mount_line(std::string_view line);

/// The tag; nothing when files of this type cannot be cached. `host_device` names the file system within its host.
[[nodiscard]] std::optional<std::uint64_t> file_system_tag(std::string_view type, std::string_view source,
                                                           std::string_view host_device);

/// The source of a file's times, which decides when they show a store (stores.h).
enum class TimesFrom : std::uint8_t {
  kernel,   ///< this host's, which keeps the times in memory
  server,   ///< a file server or a FUSE process, with what is written back to it
  overlay,  ///< the file system below, whose inode this one hides
};

struct IdentifiedFile {
  cache::FileIdentity identity;
  TimesFrom times;
};

class FileSystems {
 public:
  FileSystems();

  /// Nothing when the descriptor is not that of a regular file on a file system that can be cached.
  [[nodiscard]] std::optional<IdentifiedFile> examine(const Fd& file);
  [[nodiscard]] std::optional<cache::FileIdentity> identify(const Fd& file);

  using MountKey = std::pair<std::uint64_t, std::uint64_t>;  // mount id, device

  /// The mount of the file, which its file system is not asked for. Nothing when the kernel does not tell.
  [[nodiscard]] static std::optional<MountKey> mount_of(const Fd& file);

 private:
  struct FileSystem {
    std::uint64_t tag;
    TimesFrom times;
    std::optional<MountWatch::Mount> mount;  // none of a network file system
  };

  std::optional<FileSystem> find(const Fd& file, MountKey mount);
  [[nodiscard]] std::optional<FileSystem> derive(const Fd& file, MountKey mount) const;
  [[nodiscard]] std::optional<MountWatch::Mount> watch(const Fd& file, MountKey mount,
                                                       const std::string& mount_point) const;
  [[nodiscard]] bool mounts_changed() const;

  std::string boot_id_;
  Fd mount_table_;  // polled for changes, never read
  MountWatch mount_watch_;
  Mutex mutex_;
  std::map<MountKey, std::optional<FileSystem>> known_ GUARDED_BY(mutex_);
};

}  // namespace farside::node
