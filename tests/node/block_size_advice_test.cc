#include "node/block_size_advice.h"

#include <gtest/gtest.h>

namespace farside::node {
namespace {

constexpr std::uint64_t kBlock = 1U << 20U;

cache::node_socket::StatusReply after(std::uint64_t blocks, std::uint64_t bytes_each, std::uint64_t discarded) {
  cache::node_socket::StatusReply done{};
  done.slot_count = 1'000;
  done.blocks_from_files = blocks / 2;
  done.blocks_from_peers = blocks - blocks / 2;
  done.bytes_from_files = done.blocks_from_files * bytes_each;
  done.bytes_from_peers = done.blocks_from_peers * bytes_each;
  done.discarded = discarded;
  return done;
}

// 3,000 files of 2.8 KiB, read three times through a pool of 1,024 blocks of 1 MiB: not one hit.
TEST(BlockSizeAdvice, NamesTheBlockThatHoldsSmallFiles) {
  EXPECT_EQ(better_block_bytes(after(9'000, 2'867, 7'976), kBlock), 4'096U);
  EXPECT_EQ(better_block_bytes(after(9'000, 50'000, 7'976), kBlock), 65'536U);
}

TEST(BlockSizeAdvice, HasNothingToSayOfLargeFiles) {
  EXPECT_FALSE(better_block_bytes(after(9'000, kBlock, 7'976), kBlock));
}

TEST(BlockSizeAdvice, HasNothingToSayWhileThereIsRoom) {
  EXPECT_FALSE(better_block_bytes(after(900, 100, 10), kBlock));
}

TEST(BlockSizeAdvice, KnowsNoSmallerBlockThanTheSmallest) {
  EXPECT_FALSE(better_block_bytes(after(9'000, 10, 7'976), 4'096));
  EXPECT_FALSE(better_block_bytes(after(0, 0, 7'976), kBlock));
}

}  // namespace
}  // namespace farside::node
