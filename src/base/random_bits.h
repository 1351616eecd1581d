// random_bits.h — random numbers that no other process can foresee.
//
// Stands alone: secrets, names of teams and sessions are drawn from it in several modules.
#pragma once

#include <type_traits>

#include <sys/random.h>

#include "farside/base/error.h"

namespace farside {

/// Returns a T of random bits from the kernel's generator. Throws Error when the kernel does not provide them.
template <class T>
requires std::has_unique_object_representations_v<T>
[[nodiscard]] T random_bits() {
  static_assert(sizeof(T) <= 256, "getrandom is not interrupted then");
  T bits;
  if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {
    throw errno_error("draw random bits from", "the kernel");
  }
  return bits;
}

}  // namespace farside
