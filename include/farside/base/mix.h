// mix.h — splitmix64's finisher: every input bit reaches every output bit. For hashes, and for random numbers from a
// counter. Needs nothing but libc, since the preload library includes it.
#pragma once

#include <cstdint>

namespace farside {

[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// Steps of this from counter to counter make mix(counter) a generator of random numbers.
inline constexpr std::uint64_t kMixStep = 0x9e3779b97f4a7c15U;

}  // namespace farside
