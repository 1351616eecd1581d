#include "farside/base/fd.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace farside {
namespace {

// The kernel maps a large page as such only where address and place in the file agree.
TEST(Mapping, LiesWhereLargePagesFit) {
  for (const std::size_t pages : {1, 3, 5}) {
    const std::size_t bytes = pages * kLargePageBytes + 4096;
    const Mapping mapping(make_memfd("aligned", bytes), bytes, Mapping::Access::read_write);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping.base()) % kLargePageBytes, 0U);
  }
}

}  // namespace
}  // namespace farside
