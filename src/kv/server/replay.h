// replay.h — a change that was kept, made again in a store that is being recovered.
#pragma once

#include "kv/protocol/messages.h"
#include "kv/server/store.h"

namespace farside::kv {

/// Changes are replayed in the order in which they were made. done; full: the store is too small; refused: the request
/// changes nothing.
[[nodiscard]] Answer replay(Store& store, const Request& change);
/// The same in a store that is laid out as the one which made the change, which has put the versions there.
[[nodiscard]] Answer replay_at(Store& store, const Request& change, std::span<const TakenPlace> places);

/// One committed version, as part of a copy (store_copy.h), in a store that is laid out as the one that has it there.
[[nodiscard]] Answer replay_version_at(Store& store, const Request& version, std::span<const TakenPlace> places);

}  // namespace farside::kv
