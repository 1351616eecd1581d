// open_hooks.h — what a new descriptor changes.
#pragma once

#include <cstdio>

namespace farside::cache_preload {

/// `fd`, if it is not negative, is new under its number. What the number meant before is forgotten: not every close is
/// seen.
void begin_number(int fd);

/// The same of one that open returned.
void begin_file(int fd, int flags);

/// The same of a stream that was opened, or opened again.
void begin_stream(FILE* stream);

/// A lock was taken. What was written under it before must be seen from now on.
void look_anew();

}  // namespace farside::cache_preload
