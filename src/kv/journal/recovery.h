// recovery.h — a store made anew from a journal: the newest snapshot, and all changes since.
#pragma once

#include "kv/journal/directory.h"
#include "kv/journal/file.h"
#include "kv/protocol/store.h"

namespace farside::kv {

/// Restores the journal's contents into `store`, which is empty and not in use yet. Returns the log to go on with. An
/// entry that was being written when its writer died is cut off. Throws Error when anything else is not as it was
/// written, or the store has no room for it.
[[nodiscard]] JournalFile recover(const JournalDirectory& directory, const Partition& partition, Store& store);

}  // namespace farside::kv
