// Numbers as texts of a fixed length.
#include "base/hexadecimal.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace farside {
namespace {

TEST(Hexadecimal, HasTwoDigitsForEachByte) {
  EXPECT_EQ(hexadecimal(std::uint32_t{0}), "00000000");
  EXPECT_EQ(hexadecimal(std::uint32_t{0x1f}), "0000001f");
  EXPECT_EQ(hexadecimal(std::uint64_t{0xfedcba9876543210}), "fedcba9876543210");
}

TEST(Hexadecimal, IsOrderedAsNumbersAre) { EXPECT_LT(hexadecimal(std::uint32_t{9}), hexadecimal(std::uint32_t{10})); }

}  // namespace
}  // namespace farside
