// replay.h — a change that was kept, made again in a store that is being recovered.
#pragma once

#include "kv/protocol/messages.h"
#include "kv/protocol/store.h"

namespace farside::kv {

/// Changes are replayed in the order in which they were made. done; full: the store is too small; refused: the request
/// changes nothing.
[[nodiscard]] Answer replay(Store& store, const Request& change);

}  // namespace farside::kv
