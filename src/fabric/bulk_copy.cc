#include "fabric/bulk_copy.h"

#include <cstring>

namespace farside {

void bulk_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SANITIZE_THREAD__)
  // The sanitizer intercepts memcpy itself, so the attribute alone would not keep it out.
  const auto misaligned = [](const std::byte* place) { return reinterpret_cast<std::uintptr_t>(place) % 8 != 0; };
  std::size_t i = 0;
  if (!misaligned(to) && !misaligned(from)) {
    for (; i + 8 <= bytes; i += 8) word_copy(to + i, from + i);
  }
  for (; i < bytes; ++i) {
    reinterpret_cast<volatile std::byte*>(to)[i] = reinterpret_cast<const volatile std::byte*>(from)[i];
  }
#else
  if (bytes != 0) std::memcpy(to, from, bytes);  // of nothing, the places may be null
#endif
}

}  // namespace farside
