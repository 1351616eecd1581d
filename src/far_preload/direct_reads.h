// direct_reads.h — reads for which a device writes into the program's memory.
#pragma once

namespace farside::far_preload {

/// From here on libc's streams read by this library. Returns false when they do not: libc is not as we know it.
[[nodiscard]] bool take_over_streams();

}  // namespace farside::far_preload
