// Texts on the wire: their length is 16 bits.
#include "base/wire.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace farside {
namespace {

TEST(Wire, CarriesTheLongestText) {
  const std::string longest(UINT16_MAX, 'x');
  const std::string bytes = Encoder().text(longest).text("next").take();
  Decoder in(bytes, "a text");
  EXPECT_EQ(in.text(), longest);
  EXPECT_EQ(in.text(), "next");
}

// Its length would be cut off, and the reader take the rest for further fields.
TEST(Wire, RefusesATextWhoseLengthDoesNotFit) { EXPECT_THROW(Encoder().text(std::string(UINT16_MAX + 1, 'x')), Error); }

}  // namespace
}  // namespace farside
