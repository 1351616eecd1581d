// Which file systems' copies are left to the kernel, by the names that the kernel's headers have for them.
#include "cache_preload/self_copying.h"

#include <initializer_list>

#include <gtest/gtest.h>
#include <linux/magic.h>

namespace farside::cache_preload {
namespace {

using Types = std::initializer_list<std::uint32_t>;

TEST(SelfCopying, IsWhatSharesExtentsOrCopiesOnItsServer) {
  constexpr std::uint32_t kBcachefs = 0xca451a4e;  // not in these headers, as ZFS is not
  constexpr std::uint32_t kZfs = 0x2fc12fc1;
  for (const std::uint32_t type :
       Types{BTRFS_SUPER_MAGIC, XFS_SUPER_MAGIC, kBcachefs, kZfs, OCFS2_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC,
             NFS_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC, CEPH_SUPER_MAGIC}) {
    EXPECT_TRUE(may_copy_itself(type)) << std::hex << type;
  }
}

// Where the kernel would read all bytes and write them.
TEST(SelfCopying, IsNoOther) {
  for (const std::uint32_t type : Types{EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, FUSE_SUPER_MAGIC, V9FS_MAGIC, TMPFS_MAGIC,
                                        SQUASHFS_MAGIC, ISOFS_SUPER_MAGIC, 0}) {
    EXPECT_FALSE(may_copy_itself(type)) << std::hex << type;
  }
}

}  // namespace
}  // namespace farside::cache_preload
