// stores.h — whether the next store into a file will show in the file's times.
//
// The kernel moves them when a page is stored into for the first time since it was written back, not at each store
// through a mapping; and once for a whole call of write, when it begins. See docs/protocols/cache.md, "Stores that the
// times do not show".
#pragma once

#include <cstdint>

#include "farside/base/fd.h"

#include "node/files/file_system.h"

namespace farside::node {

/// Returns true when every store into the range that begins after this call moves the file's times away from those of
/// `version`. May wait until dirty pages of the range are written back. False when that cannot be known: some process
/// of this host may write the file.
[[nodiscard]] bool stores_will_show(const Fd& file, const cache::FileIdentity& version, TimesFrom times,
                                    std::uint64_t begin, std::uint64_t bytes);

}  // namespace farside::node
