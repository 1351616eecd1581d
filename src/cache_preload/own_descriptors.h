// own_descriptors.h — descriptors of the library's, out of the program's way.
#pragma once

namespace farside::cache_preload {

/// Moves `fd` to a high number, where a program does not expect its own. Returns it there, or -errno.
int moved_high(int fd);

/// Negative numbers are none.
void close_descriptor(int fd);

}  // namespace farside::cache_preload
