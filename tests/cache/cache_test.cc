// What the cache promises to those who acquire blocks, on real shared memory.
#include "farside/cache/cache.h"

#include <array>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "farside/cache/time_limits.h"

#include "tests/cache/test_pool.h"

namespace farside::test {
namespace {

using cache::Cache;

using Answer = cache::Acquired::Answer;

TEST(Cache, ReadsABlockOnceFromTheFileSystemAndThenFromItsOwnMemory) {
  TestPool pool(1);
  EXPECT_TRUE(pool.reads(0, key_of(1)));
  EXPECT_TRUE(pool.reads(0, key_of(1)));
  EXPECT_EQ(pool.source.loads, 1);
  EXPECT_EQ(pool.nodes[0].cache->counters().bytes_from_files, kBlock);
}

TEST(Cache, TakesABlockThatAnotherNodeHasOutOfItsMemory) {
  TestPool pool(3);
  EXPECT_TRUE(pool.reads(0, key_of(1)));
  EXPECT_TRUE(pool.reads(1, key_of(1)));
  EXPECT_TRUE(pool.reads(2, key_of(1)));
  EXPECT_EQ(pool.source.loads, 1);
  EXPECT_EQ(pool.nodes[2].cache->counters().blocks_from_peers, 1u);
}

TEST(Cache, TellsVersionsOfAFileApart) {
  TestPool pool(2);
  cache::BlockKey changed = key_of(1);
  changed.file.changed_ns += 1;
  EXPECT_TRUE(pool.reads(0, key_of(1)));
  EXPECT_TRUE(pool.reads(1, changed));
  EXPECT_EQ(pool.source.loads, 2);
}

// The paper's aim: a crowd that wants one block makes one request of the file system for each group, at most.
class CacheCrowd : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Groups, CacheCrowd, testing::Values(1, 2, 4));

TEST_P(CacheCrowd, AsksTheFileSystemAtMostOnceAGroup) {
  constexpr team::Rank kNodes = 4;
  TestPool pool(kNodes, {.groups = GetParam()});
  for (std::uint64_t block = 0; block < 8; ++block) {
    const int before = pool.source.loads;
    on_all_ranks(kNodes, [&](team::Rank rank) { EXPECT_TRUE(pool.reads(rank, key_of(7, block))) << rank; });
    EXPECT_GE(pool.source.loads - before, 1);
    EXPECT_LE(pool.source.loads - before, static_cast<int>(GetParam()));
  }
}

// Programs of one host that want one block make one request of the pool.
TEST(Cache, MakesOneRequestOfMany) {
  TestPool pool(1);
  pool.source.on_load = [](const cache::BlockKey&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  on_all_ranks(8, [&](team::Rank) {
    const auto channel = pool.nodes[0].team->fabric().open_channel();
    const cache::Acquired acquired =
        pool.nodes[0].cache->acquire(*channel, key_of(1), pool.source, pool.nodes[0].soon());
    EXPECT_EQ(acquired.answer, Answer::here);
    EXPECT_TRUE(pool.holds(0, acquired, key_of(1)));
  });
  EXPECT_EQ(pool.source.loads, 1);
}

TEST(Cache, SaysWhenTheSourceFailsAndRecoversWhenItDoesNot) {
  TestPool pool(2);
  pool.source.fail = true;
  EXPECT_EQ(pool.acquire(0, key_of(1)).answer, Answer::failed);
  pool.source.fail = false;
  EXPECT_TRUE(pool.reads(1, key_of(1)));
  EXPECT_TRUE(pool.reads(0, key_of(1)));
}

// An exception (no memory, no descriptor) at any step of an acquisition that has to make room loses neither the slot
// nor the block's key: afterwards every slot can be filled, and the block be had.
TEST(Cache, LosesNothingWhenAnAcquisitionIsBrokenOff) {
  struct BrokenOff {};
  constexpr std::uint64_t kSlots = 4;
  bool was_broken_off = true;
  for (int step = 0; was_broken_off; ++step) {
    SCOPED_TRACE(step);
    TestPool pool(2, {.cache_bytes = kSlots * kBlock});
    for (std::uint64_t file = 0; file < kSlots; ++file) ASSERT_TRUE(pool.reads(0, key_of(file)));
    int left = step;
    const auto break_off = [&] {
      if (left-- == 0) throw BrokenOff();
    };
    pool.nodes[0].channel->before_each([&](const Operation&) { break_off(); });
    pool.source.on_load = [&](const cache::BlockKey&) { break_off(); };
    was_broken_off = false;
    try {
      (void)pool.acquire(0, key_of(100));
    } catch (const BrokenOff&) {
      was_broken_off = true;
    }
    pool.nodes[0].channel->before_each({});
    pool.source.on_load = {};
    EXPECT_TRUE(pool.reads(0, key_of(100)));
    for (std::uint64_t file = 200; file < 200 + 2 * kSlots; ++file) EXPECT_TRUE(pool.reads(0, key_of(file)));
    EXPECT_EQ(pool.nodes[0].cache->counters().blocks, kSlots);
    EXPECT_TRUE(pool.reads(1, key_of(100)));
  }
}

TEST(Cache, RefusesABlockBehindTheEndOfTheFile) {
  TestPool pool(1);
  EXPECT_EQ(pool.acquire(0, key_of(1, 1U << 20U)).answer, Answer::failed);
  EXPECT_EQ(pool.source.loads, 0);
}

// A node that reads more than fits drops old blocks and stays right.
TEST(Cache, MakesRoomForNewBlocks) {
  TestPool pool(1, {.cache_bytes = 4 * kBlock});
  for (std::uint64_t file = 0; file < 20; ++file) EXPECT_TRUE(pool.reads(0, key_of(file)));
  const cache::CacheCounters counters = pool.nodes[0].cache->counters();
  EXPECT_LE(counters.blocks, 4u);
  EXPECT_GE(counters.discarded, 16u);
  EXPECT_LE(counters.singlets, 2u);
}

// A block of which others have copies goes before one that only this node has, though it was used later.
TEST(Cache, DropsABlockThatOthersHaveBeforeASinglet) {
  TestPool pool(2, {.cache_bytes = 4 * kBlock});
  EXPECT_TRUE(pool.reads(0, key_of(1)));  // a singlet
  EXPECT_TRUE(pool.reads(1, key_of(2)));
  EXPECT_TRUE(pool.reads(0, key_of(2)));  // not one
  EXPECT_TRUE(pool.reads(0, key_of(3)));
  EXPECT_TRUE(pool.reads(0, key_of(4)));
  const int before = pool.source.loads;

  EXPECT_TRUE(pool.reads(0, key_of(5)));  // takes the room of 2: file 1 is kept as a singlet
  EXPECT_TRUE(pool.reads(0, key_of(1)));
  EXPECT_EQ(pool.source.loads - before, 1);
  EXPECT_TRUE(pool.reads(0, key_of(2)));  // from node 1
  EXPECT_EQ(pool.source.loads - before, 1);
}

// When the representative drops its block, another copy of the group takes its place in the directory.
TEST(Cache, HandsTheDirectorysCellToAnotherCopy) {
  TestPool pool(3, {.cache_bytes = 2 * kBlock, .singlet_ratio = 0});
  EXPECT_TRUE(pool.reads(0, key_of(1)));  // the representative
  EXPECT_TRUE(pool.reads(1, key_of(1)));  // the alternative
  EXPECT_TRUE(pool.reads(0, key_of(2)));
  EXPECT_TRUE(pool.reads(0, key_of(3)));  // node 0 has dropped file 1
  const int before = pool.source.loads;
  EXPECT_TRUE(pool.reads(2, key_of(1)));
  EXPECT_EQ(pool.source.loads, before);
}

// Programs stamp the blocks they use; those stay.
TEST(Cache, KeepsWhatProgramsUse) {
  class Board final : public cache::UseBoard {
   public:
    [[nodiscard]] Time last_used(std::uint64_t slot) const override { return slot == used ? now : Time{}; }
    std::uint64_t used = 0;
    Time now{};
  };
  Board board;
  TestPool pool(1, {.cache_bytes = 4 * kBlock, .singlet_ratio = 0});
  pool.nodes[0].cache->set_board(board);
  board.used = pool.acquire(0, key_of(0)).slot;
  for (std::uint64_t file = 1; file < 12; ++file) {
    board.now = pool.nodes[0].team->fabric().now() + std::chrono::seconds(1);
    EXPECT_TRUE(pool.reads(0, key_of(file)));
  }
  const int before = pool.source.loads;
  EXPECT_TRUE(pool.reads(0, key_of(0)));
  EXPECT_EQ(pool.source.loads, before);
}

// A peer that is stopped costs little time when blocks are small, and a large block arrives over a slow network.
TEST(Cache, GivesACopyTheTimeThatItsBlockTakes) {
  constexpr std::uint64_t kLargeBlock = 8U << 20U;
  TestPool pool(2, {.cache_bytes = 2 * kLargeBlock, .block_bytes = kLargeBlock});
  cache::BlockKey key = key_of(1);
  key.file.bytes = kLargeBlock;
  ASSERT_EQ(pool.acquire(0, key).answer, Answer::here);

  InterposedChannel& channel = *pool.nodes[1].channel;
  bool is_copy = false;
  std::vector<Time> deadlines;
  channel.before_each([&](const Operation& operation) {
    is_copy = operation.kind == Operation::Kind::read && operation.bytes >= kLargeBlock;
  });
  channel.before_each_wait([&](Deadline deadline) {
    if (is_copy) deadlines.push_back(deadline.at);
  });
  Fabric& fabric = pool.nodes[1].team->fabric();
  const Duration time = cache::time_limits::copy(kLargeBlock);
  EXPECT_GT(time, cache::time_limits::copy(kBlock));
  const Time before = fabric.now();
  ASSERT_EQ(pool.acquire(1, key).answer, Answer::here);
  ASSERT_EQ(deadlines.size(), 1U);
  EXPECT_GE(deadlines[0], before + time);
  EXPECT_LE(deadlines[0], fabric.now() + time);
}

// A block that is in demand is not copied out of one node's memory alone: the copy of each group is drawn.
TEST(Cache, CopiesOutOfAllGroups) {
  constexpr std::uint64_t kBlocks = 64;
  TestPool pool(4, {.cache_bytes = 2 * kBlocks * kBlock, .groups = 2});
  std::array<std::uint64_t, 4> copies{};
  pool.nodes[2].channel->before_each([&](const Operation& operation) {
    if (operation.kind == Operation::Kind::read && operation.bytes > kBlock) ++copies.at(operation.region->peer());
  });
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    EXPECT_TRUE(pool.reads(0, key_of(7, block)));
    EXPECT_TRUE(pool.reads(1, key_of(7, block)));
    EXPECT_TRUE(pool.reads(2, key_of(7, block)));
  }
  // Of fair draws fewer than these come once in 10^10 runs.
  EXPECT_GE(copies[0], 8U);
  EXPECT_GE(copies[1], 8U);
  EXPECT_EQ(copies[0] + copies[1], kBlocks);
}

TEST(Cache, GoesOnWhenTheHomeOfTheDirectoryIsDead) {
  TestPool pool(3);
  for (team::Rank rank = 1; rank < 3; ++rank) pool.nodes[0].team->fabric().mark_lost(rank);
  for (std::uint64_t file = 0; file < 12; ++file) EXPECT_TRUE(pool.reads(0, key_of(file)));
  for (std::uint64_t file = 0; file < 12; ++file) EXPECT_TRUE(pool.reads(0, key_of(file)));
  EXPECT_EQ(pool.source.loads, 12);
}

// Only the next reader of its group repairs a cell that names a dead node, even if another group has the block.
TEST(Cache, ReplacesTheCellOfADeadNode) {
  TestPool pool(4, {.groups = 2});
  std::uint64_t number = 1;
  while (cache::Geometry(pool.options, 4).bucket_of(cache::block_id(key_of(number))).rank != 0) ++number;
  const cache::BlockKey key = key_of(number);
  EXPECT_TRUE(pool.reads(2, key));  // the representative of group 0
  EXPECT_TRUE(pool.reads(1, key));  // and that of group 1
  pool.nodes[0].team->fabric().mark_lost(2);

  const int before = pool.source.loads;
  EXPECT_TRUE(pool.reads(0, key));
  EXPECT_EQ(pool.source.loads, before);
  EXPECT_EQ(pool.cell_of(key).rank, 0u);
}

// Which of the listed places is tried first is drawn, so that some pool shows it.
TEST(Cache, ReplacesACellWithoutACopyThoughAnotherGroupCanHelp) {
  const cache::BlockKey key = key_of(1);
  for (int pools = 0; pools < 64; ++pools) {
    TestPool pool(4, {.groups = 2});
    ASSERT_TRUE(pool.reads(0, key) && pool.reads(1, key));
    const cache::Cell stale = pool.cell_of(key);
    ASSERT_EQ(stale.rank, 0);
    const Cache& cache = *pool.nodes[0].cache;
    cache.region().word<ControlWord>(cache.layout().slots_offset + stale.slot * cache::slot_stride(kBlock)).store(0);

    ASSERT_TRUE(pool.reads(2, key));
    if (pool.cell_of(key).rank == 2) return;
  }
  FAIL() << "the reader that found nothing at the cell's place left the cell there";
}

// All nodes read all blocks out of caches that are too small, so that slots are recycled all the time while readers use
// them: whatever a copy yields must be the block that was asked for.
TEST(CacheStress, NeverYieldsBytesOfAnotherBlock) {
  constexpr team::Rank kNodes = 3;
  TestPool pool(kNodes, {.cache_bytes = 6 * kBlock, .groups = 2});
  on_all_ranks(kNodes * 2, [&](team::Rank thread) {
    Node& node = pool.nodes[thread % kNodes];
    const auto channel = node.team->fabric().open_channel();
    std::uint64_t random = thread + 1;
    for (int i = 0; i < 1500; ++i) {
      random = mix(random);
      const cache::BlockKey key = key_of(random % 24);
      const cache::Acquired acquired = node.cache->acquire(*channel, key, pool.source, node.soon());
      ASSERT_EQ(acquired.answer, Answer::here);
      // The other thread of the node may recycle the slot at once; only under its token must the bytes be right.
      const std::uint64_t offset = node.cache->layout().slots_offset + acquired.slot * cache::slot_stride(kBlock);
      const bool right = pool.holds(thread % kNodes, acquired, key);
      channel->local_fence();
      const auto token = node.cache->region().word<ControlWord>(offset + offsetof(cache::SlotHeader, token));
      ASSERT_TRUE(right || token.load() != acquired.token);
    }
  });
}

}  // namespace
}  // namespace farside::test
