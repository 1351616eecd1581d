// Which reads are known to be copied by the kernel. All others go through memory that stays.
#include "far_preload/copied_reads.h"

#include <cstdint>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace farside::far_preload {
namespace {

OpenFile file_on(std::uint32_t file_system) { return {S_IFREG, 0, file_system, false}; }
OpenFile device(unsigned major, unsigned minor) { return {S_IFCHR, makedev(major, minor), TMPFS_MAGIC, false}; }
OpenFile disk(bool is_direct) { return {S_IFBLK, makedev(8, 0), TMPFS_MAGIC, is_direct}; }

TEST(CopiedReads, OfFileSystemsWithAPageCache) {
  for (const std::uint32_t each :
       {std::uint32_t{EXT4_SUPER_MAGIC}, std::uint32_t{XFS_SUPER_MAGIC}, BTRFS_SUPER_MAGIC, std::uint32_t{TMPFS_MAGIC},
        std::uint32_t{NFS_SUPER_MAGIC}, std::uint32_t{PROC_SUPER_MAGIC}, std::uint32_t{SYSFS_MAGIC}}) {
    OpenFile file = file_on(each);
    EXPECT_TRUE(is_copied(file)) << std::hex << each;
    file.is_direct = true;
    EXPECT_FALSE(is_copied(file)) << std::hex << each;
  }
}

// They read directly by themselves, or what is below them may; and what is not known may do either.
TEST(CopiedReads, NotOfFileSystemsThatMayReadDirectly) {
  constexpr std::uint32_t kZfs = 0x2fc12fc1;
  constexpr std::uint32_t kLustre = 0x0bd00bd0;
  constexpr std::uint32_t kUnknown = 0;
  for (const std::uint32_t each :
       {std::uint32_t{FUSE_SUPER_MAGIC}, std::uint32_t{V9FS_MAGIC}, CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
        std::uint32_t{OVERLAYFS_SUPER_MAGIC}, std::uint32_t{ECRYPTFS_SUPER_MAGIC}, kZfs, kLustre, kUnknown}) {
    EXPECT_FALSE(is_copied(file_on(each))) << std::hex << each;
  }
}

// Wherever their names are.
TEST(CopiedReads, OfDevicesByTheirNumber) {
  EXPECT_TRUE(is_copied(device(1, 3)));      // /dev/null
  EXPECT_TRUE(is_copied(device(1, 9)));      // /dev/urandom
  EXPECT_TRUE(is_copied(device(5, 0)));      // /dev/tty
  EXPECT_TRUE(is_copied(device(136, 7)));    // /dev/pts/7
  EXPECT_FALSE(is_copied(device(9, 0)));     // a tape
  EXPECT_FALSE(is_copied(device(10, 229)));  // /dev/fuse
  EXPECT_FALSE(is_copied(device(21, 0)));    // /dev/sg0
  EXPECT_FALSE(is_copied(device(144, 0)));
  EXPECT_TRUE(is_copied(disk(false)));
  EXPECT_FALSE(is_copied(disk(true)));
}

TEST(CopiedReads, OfDescriptorsAsTheyAre) {
  int pipe_ends[2];
  int sockets[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_DIRECT), 0);  // packets
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  const int in_memory = ::memfd_create("copied-reads", MFD_CLOEXEC);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int process = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  for (const int each : {pipe_ends[0], sockets[0], in_memory, null, process}) {
    EXPECT_TRUE(is_copied(each));
    ::close(each);
  }
  EXPECT_TRUE(is_copied(-1));  // the kernel says what is wrong with it
  ::close(pipe_ends[1]);
  ::close(sockets[1]);
}

}  // namespace
}  // namespace farside::far_preload
