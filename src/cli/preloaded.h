// preloaded.h — the libraries that the command puts into other programs.
#pragma once

#include <string>

namespace farside::cli {

/// The path of a library that lies beside the command, in the build tree and where it is installed. Throws Error.
[[nodiscard]] std::string library_beside_command(const std::string& name);

/// Returns the new value of LD_PRELOAD: `libraries`, then its present value.
[[nodiscard]] std::string preload_before_others(std::string libraries);

}  // namespace farside::cli
