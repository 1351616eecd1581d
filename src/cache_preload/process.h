// process.h — what this process was told when it started, and whether it still is that process.
#pragma once

namespace farside::cache_preload::process {

/// Whether the library has anything to do here. False until it was started.
[[nodiscard]] bool is_active();

/// False in a child that shares our memory (vfork) or was forked behind libc's back: what we know about descriptors
/// and connections is the parent's.
[[nodiscard]] bool is_ours();

/// Whether `path`, canonical, lies in a directory that was named.
[[nodiscard]] bool is_under(const char* path);

/// Writes one line to the standard error that the program was started with, if that is still there.
void warn(const char* what, const char* on, int error);

}  // namespace farside::cache_preload::process
