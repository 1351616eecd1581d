// preloaded.h — the libraries that the command puts into other programs.
#pragma once

#include <string>

namespace farside::cli {

/// The path of a library that lies beside the command, in the build tree and where it is installed. Throws Error.
[[nodiscard]] std::string library_beside_command(const std::string& name);

/// What LD_PRELOAD is to be: `libraries`, and what it was.
[[nodiscard]] std::string preload_before_others(std::string libraries);

}  // namespace farside::cli
