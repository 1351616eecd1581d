// carry.h — bytes from one rank to others, by way of this process.
#pragma once

#include <span>

#include "farside/comm/comm.h"

namespace farside {

/// READs a piece, WRITEs it to all, and so on. Who is lost misses it; the others do not. To be flushed.
[[nodiscard]] Ended carry(Channel& channel, std::span<const RemoteSpan> to, RemoteSpan from, Deadline deadline);

}  // namespace farside
