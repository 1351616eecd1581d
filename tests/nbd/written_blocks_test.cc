#include "nbd/written_blocks.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace farside::nbd {
namespace {

constexpr std::uint64_t kBlock = WrittenBlocks::kBlockBytes;

// Byte by byte, what the device's blocks say must hold whatever was set since it was last cleared, and nothing that was
// cleared as a whole.
TEST(WrittenBlocks, HoldAllThatWasSetAndNoBlockThatWasCleared) {
  constexpr std::uint64_t kBytes = 70 * kBlock + 100;
  WrittenBlocks blocks(kBytes);
  std::vector<bool> model(71, false);
  std::mt19937 dice(1);
  for (int step = 0; step < 2000; ++step) {
    const std::uint64_t offset = dice() % kBytes;
    const std::uint64_t bytes = 1 + dice() % (kBytes - offset);
    if (dice() % 2 == 0) {
      blocks.set(offset, bytes);
      for (std::uint64_t block = offset / kBlock; block <= (offset + bytes - 1) / kBlock; ++block) model[block] = true;
    } else {
      blocks.clear(offset, bytes);
      for (std::uint64_t block = 0; block < model.size(); ++block) {
        const std::uint64_t end = std::min((block + 1) * kBlock, kBytes);
        if (offset <= block * kBlock && end <= offset + bytes) model[block] = false;
      }
    }
    for (std::uint64_t at = 0; at < kBytes;) {
      const auto [length, written] = blocks.run_at(at, kBytes);
      for (std::uint64_t block = at / kBlock; block * kBlock < at + length; ++block) ASSERT_EQ(model[block], written);
      at += length;
      ASSERT_TRUE(at == kBytes || model[at / kBlock] != written) << "a run is the longest";
    }
  }
}

TEST(WrittenBlocks, KnowARunThatBeginsAndEndsWithinABlock) {
  WrittenBlocks blocks(4 * kBlock);
  blocks.set(kBlock + 1, 1);
  EXPECT_EQ(blocks.run_at(10, 4 * kBlock).bytes, kBlock - 10);
  EXPECT_TRUE(blocks.run_at(kBlock, 4 * kBlock).written);
  EXPECT_EQ(blocks.run_at(kBlock + 5, kBlock + 7).bytes, 2U);
}

}  // namespace
}  // namespace farside::nbd
