#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace farside {

// Not through the log, which may be off.
void fail_assertion(const char* what, const std::source_location& at) noexcept {
  std::fprintf(stderr, "farside: an assertion failed: %s (%s:%u, %s); this is a defect, please report it\n", what,
               at.file_name(), static_cast<unsigned>(at.line()), at.function_name());
  std::abort();
}

}  // namespace farside
