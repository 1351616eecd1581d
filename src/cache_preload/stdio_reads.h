// stdio_reads.h — reads and closes that libc's stdio does inside itself.
#pragma once

namespace farside::cache_preload {

/// Directs them to us. When libc is not as we know it, nothing happens: streams are then read from the kernel.
void watch_stdio();

}  // namespace farside::cache_preload
