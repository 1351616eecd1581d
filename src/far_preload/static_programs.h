// static_programs.h — warnings about programs that get no far memory, since nothing can be preloaded into them.
#pragma once

namespace farside::far_preload {

/// Nothing is warned of before. Without memory nothing is warned of at all.
void watch_for_static_programs();

/// If the program that is about to be executed is linked statically, warns on standard error: once for each program,
/// of this process and those that it forked. Of a script, this is its interpreter. Takes no lock and no memory, and
/// leaves errno alone: the caller may be a child of vfork or a signal handler.
void warn_if_static(const char* path);
/// The file that execvp would execute.
void warn_if_static_in_path(const char* name);
/// As execveat(2) has it.
void warn_if_static_at(int directory, const char* path, int flags);

}  // namespace farside::far_preload
