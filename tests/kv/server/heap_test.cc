// What a server's memory is divided into: against a model that knows which bytes are taken.
#include "kv/server/heap.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/reduced.h"

namespace farside::kv::test {
namespace {

using farside::test::reduced;

constexpr std::uint64_t kBegin = 4096;
constexpr std::uint64_t kBytes = 8U << 20U;

struct Block {
  std::uint64_t offset;
  std::uint64_t bytes;
};

/// Which bytes are taken, as the heap's user sees it.
class Model {
 public:
  void take(const Block& block) {
    ASSERT_GE(block.offset, kBegin);
    ASSERT_LE(block.offset + block.bytes, kBegin + kBytes);
    ASSERT_EQ(block.offset % 16, 0);
    if (block.bytes % 64 == 0) {
      ASSERT_EQ(block.offset % 64, 0);
    }
    const auto after = blocks_.lower_bound(block.offset);
    if (after != blocks_.end()) {
      ASSERT_LE(block.offset + block.bytes, after->first);
    }
    if (after != blocks_.begin()) {
      ASSERT_LE(std::prev(after)->first + std::prev(after)->second, block.offset);
    }
    blocks_.emplace(block.offset, block.bytes);
  }
  void give_back(const Block& block) { blocks_.erase(block.offset); }

 private:
  std::map<std::uint64_t, std::uint64_t> blocks_;
};

std::vector<Block> fill(Heap& heap, std::uint64_t bytes, Heap::For purpose = Heap::For::keeping) {
  std::vector<Block> blocks;
  while (const auto offset = heap.take(bytes, purpose)) blocks.push_back({*offset, bytes});
  return blocks;
}

void give_back(Heap& heap, const std::vector<Block>& blocks) {
  for (const Block& block : blocks) heap.give_back(block.offset, block.bytes);
}

// Sizes of records and cells, now and then a large one; about as much is given back as is taken.
TEST(KvHeap, BlocksNeverOverlapAndAllOfItComesBack) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::mt19937_64 random(seed);
    Heap heap(kBegin, kBegin + kBytes);
    Model model;
    std::vector<Block> taken;
    std::uint64_t refused = 0;
    for (std::uint64_t step = 0; step < reduced(30'000); ++step) {
      const std::uint64_t most = random() % 50 == 0 ? 1U << 20U : random() % 5 == 0 ? 20'000 : 600;
      if (taken.empty() || random() % 100 < 52) {
        const std::uint64_t bytes = 1 + random() % most;
        const auto offset = heap.take(bytes);
        refused += offset ? 0 : 1;
        if (!offset) continue;
        taken.push_back({*offset, bytes});
        model.take(taken.back());
        if (HasFatalFailure()) return;
      } else {
        std::swap(taken[random() % taken.size()], taken.back());
        heap.give_back(taken.back().offset, taken.back().bytes);
        model.give_back(taken.back());
        taken.pop_back();
      }
    }
    EXPECT_GT(refused, 0) << "never full: this has tried nothing";
    give_back(heap, taken);
    EXPECT_EQ(heap.bytes_used(), 0);
    EXPECT_TRUE(heap.take(heap.bytes_total() / 2)) << "it is in one piece again";
  }
}

TEST(KvHeap, SmallBlocksTakeNearlyAllOfIt) {
  for (const std::uint64_t bytes : {96, 160, 352, 704, 1200, 4096}) {
    Heap heap(kBegin, kBegin + kBytes);
    const std::uint64_t blocks = fill(heap, bytes).size();
    EXPECT_GT(blocks * bytes, heap.bytes_total() * 7 / 10) << bytes;
  }
}

// What held small blocks of one size serves any other size when they are gone.
TEST(KvHeap, MemoryOfOneSizeServesAnother) {
  Heap heap(kBegin, kBegin + kBytes);
  const auto small = fill(heap, 96);
  EXPECT_FALSE(heap.take(1U << 20U));
  give_back(heap, small);
  EXPECT_GE(fill(heap, 1U << 20U).size(), 7);
}

// To erase takes memory as well: it must not fail because all is full.
TEST(KvHeap, TheLastOfItIsForMakingRoom) {
  Heap heap(kBegin, kBegin + kBytes);
  for (const std::uint64_t bytes : {1U << 20U, 4096U, 160U, 96U, 16U}) fill(heap, bytes);
  EXPECT_FALSE(heap.take(112));
  EXPECT_GE(fill(heap, 112, Heap::For::making_room).size(), 64);
}

// What is erased in any order leaves single blocks, of which there must be use; also in a heap that follows this one.
TEST(KvHeap, ToMakeRoomABlockMayBeLargerThanItNeeds) {
  Heap heap(kBegin, kBegin + kBytes);
  Heap follower(kBegin, kBegin + kBytes);
  const auto blocks = fill(heap, 1000);
  (void)fill(heap, 112, Heap::For::making_room);
  ASSERT_FALSE(heap.take(112, Heap::For::making_room));
  heap.give_back(blocks[5].offset, 1000);
  EXPECT_FALSE(heap.take(112)) << "nothing else wastes room";
  const auto taken = heap.take(112, Heap::For::making_room);
  ASSERT_EQ(taken, blocks[5].offset);
  EXPECT_TRUE(follower.take_at(*taken, 112, heap.chunk_of(*taken)));
  EXPECT_TRUE(follower.take_at(blocks[6].offset, 1000, heap.chunk_of(blocks[6].offset)));
  EXPECT_FALSE(follower.take_at(blocks[6].offset, 1000, heap.chunk_of(blocks[6].offset)));
  const std::uint64_t before = heap.bytes_used();
  heap.give_back(*taken, 112);
  EXPECT_EQ(before - heap.bytes_used(), 1024);
  EXPECT_TRUE(heap.take(1000));
}

TEST(KvHeap, WithoutRoomForAChunkSmallBlocksTakePages) {
  Heap heap(kBegin, kBegin + 16 * Heap::kPageBytes);
  const auto blocks = fill(heap, 100);
  EXPECT_EQ(blocks.size(), 16);
  give_back(heap, blocks);
  EXPECT_TRUE(heap.take(16 * Heap::kPageBytes));
}

TEST(KvHeap, ABlockMayBeOfTheLargestRecord) {
  Heap heap(kBegin, kBegin + (33U << 20U));
  EXPECT_TRUE(heap.take((16U << 20U) + 400));
  EXPECT_FALSE(heap.take(std::uint64_t{1} << 60U));
}

}  // namespace
}  // namespace farside::kv::test
