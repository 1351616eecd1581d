#include "fabric/bulk_copy.h"

namespace farside {

void bulk_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SANITIZE_THREAD__)
  // The sanitizer intercepts memcpy itself, so the attribute alone would not keep it out.
  for (std::size_t i = 0; i < bytes; ++i) {
    reinterpret_cast<volatile std::byte*>(to)[i] = reinterpret_cast<const volatile std::byte*>(from)[i];
  }
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace farside
