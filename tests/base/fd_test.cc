#include "farside/base/fd.h"

#include <cstdint>
#include <cstring>

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

// Operations that come late, after their region was freed, reach memory that belongs to no region.
TEST(Mapping, BlankKeepsTheAddressesAndLetsTheFileGo) {
  constexpr std::size_t kBytes = 1 << 20;
  const Fd file = make_memfd("test", kBytes);
  Mapping mapping(file, kBytes, Mapping::Access::read_write);
  const Mapping other(file, kBytes, Mapping::Access::read_only);
  std::memset(mapping.base(), 'a', kBytes);
  ASSERT_TRUE(mapping.blank());
  EXPECT_EQ(mapping.base()[kBytes - 1], std::byte{0});
  std::memset(mapping.base(), 'b', kBytes);
  EXPECT_EQ(other.base()[kBytes - 1], std::byte{'a'});
}

// A destructor calls it, so a refusal must not be an exception.
TEST(Mapping, BlankSaysWhenItCannot) { EXPECT_FALSE(Mapping().blank()); }

}  // namespace
}  // namespace farside
