// log.h — the program's one logger. Lines go to standard error; FARSIDE_LOG=debug|info|warn|error|off sets the level.
#pragma once

#include <string_view>

namespace farside::log {

void debug(std::string_view line);
void info(std::string_view line);
void warn(std::string_view line);
void error(std::string_view line);

/// Sets the prefix of each line, such as "node 2". Call it once, before threads start.
void set_prefix(std::string_view prefix);

}  // namespace farside::log
