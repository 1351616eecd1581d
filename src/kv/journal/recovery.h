// recovery.h — a store made anew from a journal: the newest snapshot, and all changes since.
#pragma once

#include <cstdint>
#include <functional>

#include "kv/journal/directory.h"
#include "kv/journal/file.h"
#include "kv/server/store.h"

namespace farside::kv {

/// Called during a recovery whenever `kRecoveryStep` more of the journal has been read, with all that has been. A
/// journal whose store is nearly full is read twice.
using RecoveryProgress = std::function<void(std::uint64_t bytes)>;
inline constexpr std::uint64_t kRecoveryStep = std::uint64_t{16} << 20U;

/// Restores the journal's contents into `store`, which is empty and not in use yet. Returns the log to go on with. An
/// entry that was being written when its writer died is cut off. Throws Error when anything else is not as it was
/// written, or the store has no room for it.
[[nodiscard]] JournalFile recover(const JournalDirectory& directory, const Partition& partition, Store& store,
                                  const RecoveryProgress& progress = {});

}  // namespace farside::kv
