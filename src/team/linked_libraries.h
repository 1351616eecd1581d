// linked_libraries.h — what a program is linked with, as its file says: not what it loads later, nor what a script
// runs.
#pragma once

#include <string>
#include <vector>

namespace farside::team {

/// The file that execvp would run for `command`; empty when there is none.
[[nodiscard]] std::string find_program(const std::string& command);

/// The names of the shared libraries that the 64-bit ELF file at `path` needs, such as "libc.so.6". Empty for every
/// other file, and for one that is broken.
[[nodiscard]] std::vector<std::string> linked_libraries(const std::string& path);

}  // namespace farside::team
