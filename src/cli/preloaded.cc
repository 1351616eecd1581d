#include "cli/preloaded.h"

#include <cstdlib>
#include <filesystem>

#include "farside/base/error.h"

namespace farside::cli {

namespace fs = std::filesystem;

std::string library_beside_command(const std::string& name) {
  const fs::path command = fs::canonical("/proc/self/exe");
  for (const char* directory : {FARSIDE_LIBRARIES_FROM_COMMANDS, "../lib"}) {
    fs::path library = (command.parent_path() / directory / name).lexically_normal();
    if (!fs::exists(library)) continue;
    if (library.string().find_first_of(" :") == std::string::npos) return library;
    throw Error(
        {"preload", library, "the dynamic linker takes no path with a space or a colon", "install farside elsewhere"});
  }
  throw Error({"find the library to preload beside", command, name + " is not there", "install farside again"});
}

std::string preload_before_others(std::string libraries) {
  if (const char* others = ::secure_getenv("LD_PRELOAD"); others != nullptr) libraries += std::string(":") + others;
  return libraries;
}

}  // namespace farside::cli
