// self_copying.h — file systems whose copies are left to the kernel (docs/exec.md).
//
// Stands alone: it needs no descriptor, so that it can be tried without such a file system.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace farside::cache_preload {

/// Whether a file system of this type, as statfs names it, may make a copy without moving a byte through this host: by
/// sharing extents, or on the server. FUSE is not among them: for a server that copies nothing by itself the kernel
/// would read the file.
[[nodiscard]] constexpr bool may_copy_itself(std::uint32_t type) {
  constexpr std::uint32_t kTypes[] = {0x9123683e,   // btrfs
                                      0x58465342,   // xfs
                                      0xca451a4e,   // bcachefs
                                      0x2fc12fc1,   // zfs
                                      0x7461636f,   // ocfs2
                                      0x794c7630,   // overlay, by the file system below
                                      0x6969,       // nfs
                                      0xff534d42,   // cifs
                                      0xfe534d42,   // smb2
                                      0x00c36400};  // ceph
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

}  // namespace farside::cache_preload
