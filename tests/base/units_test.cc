#include "farside/base/units.h"

#include <gtest/gtest.h>

#include "farside/base/error.h"

namespace farside {
namespace {

TEST(Units, ReadsSizesInPowersOf1024) {
  EXPECT_EQ(parse_bytes("0", "x"), 0u);
  EXPECT_EQ(parse_bytes("4096", "x"), 4096u);
  EXPECT_EQ(parse_bytes("64K", "x"), 65536u);
  EXPECT_EQ(parse_bytes("1.5GiB", "x"), 3u << 29);
  EXPECT_EQ(parse_bytes("2TB", "x"), 2ull << 40);
}

TEST(Units, RefusesWhatIsNotASizeAndNamesTheOption) {
  for (const char* text : {"", "G", "-1", "1X", "1GG", "0x10", "1.3", "99999999T", "nan", "1 G"}) {
    try {
      (void)parse_bytes(text, "--cache");
      FAIL() << text;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("--cache"), std::string::npos);
    }
  }
}

TEST(Units, WritesSizes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(~0ull), "16 EiB");
}

TEST(Units, ReadsDurations) {
  EXPECT_EQ(parse_duration("250ms", "x").count(), 250);
  EXPECT_EQ(parse_duration("2s", "x").count(), 2000);
  EXPECT_THROW((void)parse_duration("2", "x"), UsageError);
  EXPECT_EQ(parse_duration("876000h", "x").count(), 876'000LL * 3'600'000);
  EXPECT_THROW((void)parse_duration("5000000h", "x"), UsageError);  // more nanoseconds than 64 bits tell
}

}  // namespace
}  // namespace farside
