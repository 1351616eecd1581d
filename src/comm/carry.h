// carry.h — bytes from one rank to others, by way of this process.
#pragma once

#include <span>

#include "comm/copies.h"

namespace farside::comm {

/// READs a piece, WRITEs it to all, and so on. A lost rank misses it; the others do not. To be flushed.
[[nodiscard]] Status carry(Channel& channel, std::span<const RemoteSpan> to, RemoteSpan from, const NextDeadline& next);

}  // namespace farside::comm
