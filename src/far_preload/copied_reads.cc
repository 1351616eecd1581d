#include "copied_reads.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "cache_preload/system_call.h"

namespace farside::far_preload {

namespace {

using cache_preload::system_call;

constexpr std::uint32_t kNtfs3Magic = 0x7366746e;

// Their reads without O_DIRECT go through the page cache, or are made in kernel memory. Missing on purpose, since they
// read directly by themselves: FUSE and virtiofs (FOPEN_DIRECT_IO), 9p, CIFS and SMB2 (cache=none), ZFS
// (direct=always), Lustre (hybrid I/O). Overlay and ecryptfs read from other file systems, which cannot be looked at.
constexpr std::uint32_t kCopyingFileSystems[] = {
    EXT4_SUPER_MAGIC,  // ext2 and ext3 as well
    XFS_SUPER_MAGIC,     BTRFS_SUPER_MAGIC,    F2FS_SUPER_MAGIC,  TMPFS_MAGIC, RAMFS_MAGIC,        HUGETLBFS_MAGIC,
    NFS_SUPER_MAGIC,     MSDOS_SUPER_MAGIC,    EXFAT_SUPER_MAGIC, kNtfs3Magic, ISOFS_SUPER_MAGIC,  UDF_SUPER_MAGIC,
    SQUASHFS_MAGIC,      EROFS_SUPER_MAGIC_V1, PROC_SUPER_MAGIC,  SYSFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
    ANON_INODE_FS_MAGIC,  // eventfd, timerfd, signalfd, inotify
};

// /dev/null, zero, full, random, urandom, mem, kmsg; and terminals. Others may read into the program's pages, as tapes
// do.
bool is_copying_device(dev_t device) {
  const unsigned number = major(device);
  return number == MEM_MAJOR || number == TTY_MAJOR || number == TTYAUX_MAJOR ||
         (number >= UNIX98_PTY_SLAVE_MAJOR && number < UNIX98_PTY_SLAVE_MAJOR + UNIX98_PTY_MAJOR_COUNT);
}

}  // namespace

bool is_copied(const OpenFile& file) {
  if (S_ISFIFO(file.mode) || S_ISSOCK(file.mode)) return true;  // O_DIRECT of a pipe means packets
  if (file.is_direct) return false;
  if (S_ISBLK(file.mode)) return true;
  if (S_ISCHR(file.mode)) return is_copying_device(file.device);
  return std::ranges::find(kCopyingFileSystems, file.file_system) != std::end(kCopyingFileSystems);
}

// A file that cannot be looked at is not known to be copied; a number that is no descriptor is read by nothing.
bool is_copied(int fd) {
  struct stat64 status {};
  const long found = system_call(SYS_fstat, fd, &status);
  if (found != 0) return found == -EBADF;
  OpenFile file{.mode = status.st_mode, .device = status.st_rdev, .file_system = 0, .is_direct = false};
  if (S_ISFIFO(file.mode) || S_ISSOCK(file.mode)) return is_copied(file);
  const long flags = system_call(SYS_fcntl, fd, F_GETFL);
  file.is_direct = flags < 0 || (flags & O_DIRECT) != 0;
  const bool is_special = S_ISBLK(file.mode) || S_ISCHR(file.mode);  // their file system is where their name is
  struct statfs64 where {};
  if (!is_special && !file.is_direct && system_call(SYS_fstatfs, fd, &where) == 0) {
    file.file_system = static_cast<std::uint32_t>(where.f_type);
  }
  return is_copied(file);
}

}  // namespace farside::far_preload
