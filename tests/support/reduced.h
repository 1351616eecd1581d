// reduced.h — how often a test repeats what it does, and how long it may take.
//
// FARSIDE_TEST_DIVISOR=20 makes the suites that many times smaller, for machines that are emulated. They expect the
// same; they only look less often.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "farside/fabric/time.h"

namespace farside::test {

inline std::uint64_t divisor() {
  const char* const divisor = std::getenv("FARSIDE_TEST_DIVISOR");
  return divisor == nullptr ? 1 : std::stoull(divisor);
}

inline std::uint64_t reduced(std::uint64_t usual) { return std::max<std::uint64_t>(1, usual / divisor()); }

/// A time limit, longer on an emulated machine: it runs tens of times slower.
inline Duration extended(Duration usual) { return divisor() == 1 ? usual : 10 * usual; }

}  // namespace farside::test
