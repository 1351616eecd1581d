#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace farside {

// Not through the log, which may be off.
void fail_assertion(const char* what, const char* file, int line, const char* function) noexcept {
  std::fprintf(stderr, "farside: an assertion failed: %s (%s:%d, %s); this is a defect, please report it\n", what, file,
               line, function);
  std::abort();
}

}  // namespace farside
