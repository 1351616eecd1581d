// read_atomic.h — decides whether a history is what a store with read-atomic transactions and sessions may show.
#pragma once

#include <optional>

#include "kv/history/anomaly.h"
#include "kv/history/history.h"

namespace farside::kv {

/// Nothing when some total order of the commits that contains the order of each session and puts writers before
/// their readers explains all reads: a transaction that saw one write of another, or is later in its session, or whose
/// session saw its write to the key, sees of each key that it reads the other's write or one that is later in the
/// order. Sound and complete, for values that are unique for each key; a value that is not throws UsageError.
[[nodiscard]] std::optional<HistoryAnomaly> check_read_atomic(const History& history);

}  // namespace farside::kv
