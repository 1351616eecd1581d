// end.h — when a page cannot be had: the program cannot go on, and is told as of any memory that fails.
//
// Stands alone: heap, arena and pager end a program in the same way.
#pragma once

#include <string_view>

namespace farside::far {

/// Writes "farside: cannot <tried>: <why>" to standard error, and ends the process by SIGBUS. Safe in fault handlers.
[[noreturn]] void end_process(std::string_view tried, std::string_view why);

}  // namespace farside::far
