// Spaces in the memory of several nodes, with real threads: what is read is what was written, whatever happens to
// nodes.
#include <algorithm>
#include <array>
#include <atomic>

#include <gtest/gtest.h>

#include "tests/far/lent_nodes.h"
#include "tests/far/page_worker.h"
#include "tests/support/interposed_team.h"
#include "tests/support/shared.h"

namespace farside::far {
namespace {

using namespace std::chrono_literals;

constexpr PeerId kSelf = 100;
constexpr std::uint64_t kSlabBytes = 16U << 10U;

class AFarSpace : public testing::Test {
 protected:
  static constexpr PeerId kNodes = 3;

  /// A space of so many slabs on all nodes.
  std::unique_ptr<StripedSpace> open(std::uint64_t slabs, std::uint32_t copies) {
    auto space = std::make_unique<StripedSpace>(*fabric_, kSelf, SpaceShape{slabs * kSlabBytes, kSlabBytes, copies});
    for (auto& node : nodes_) space->slabs().add(node->join());
    return space;
  }
  void start_nodes(SlabNumber slabs) {
    for (PeerId node = 0; node < kNodes; ++node) {
      nodes_.push_back(std::make_unique<LentNode>(
          *fabric_, node, LenderSettings{.slab_bytes = kSlabBytes, .slabs = slabs, .stock = 2}));
    }
  }
  [[nodiscard]] Deadline soon() const { return fabric_->in(60s); }
  [[nodiscard]] LentUse use() {
    LentUse sum;
    for (auto& node : nodes_) {
      const LentUse one = node->join()->use(*channel_, soon()).value();
      sum.bare += one.bare;
      sum.free += one.free;
      sum.taken += one.taken;
      sum.returned += one.returned;
    }
    return sum;
  }

  std::unique_ptr<Fabric> fabric_ = make_lonely_fabric(kNodes);
  std::unique_ptr<Channel> channel_ = fabric_->open_channel();
  std::vector<std::unique_ptr<LentNode>> nodes_;
};

TEST_F(AFarSpace, HasWhatManyThreadsWrote) {
  start_nodes(16);
  const auto space = open(12, 1);
  std::vector<std::jthread> threads;
  for (std::uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&space, number] {
      Worker worker(*space, number, 4);
      worker.work(1500);
      worker.read_all();
    });
  }
}

// While they write, one node after the other is lost, and what it had is copied to those that are left.
TEST_F(AFarSpace, LosesNothingWhenNodesAreLostOneByOne) {
  start_nodes(24);
  const auto space = open(12, 2);
  std::atomic<int> working = 3;
  std::vector<std::jthread> threads;
  for (std::uint64_t number = 0; number < 3; ++number) {
    threads.emplace_back([&space, &working, number] {
      Worker worker(*space, number, 3);
      do worker.work(100);
      while (working.load() == 3);
      worker.read_all();
    });
  }
  fabric_->sleep(20ms);
  fabric_->mark_lost(0);
  EXPECT_TRUE(test::eventually([&] { return space->slabs().repair(soon()); }));
  fabric_->mark_lost(1);
  fabric_->sleep(20ms);
  working = 0;
}

TEST_F(AFarSpace, SaysThatWhatWasOnALostNodeIsLost) {
  start_nodes(8);
  const auto space = open(3, 1);
  const auto io = space->open_io();
  std::uint64_t value = 7;
  for (std::uint64_t slab = 0; slab < 3; ++slab) {
    const Transfer transfer{slab * kSlabBytes, LocalSpan(value)};
    ASSERT_EQ(io->write({&transfer, 1}, soon()), Status::done);
  }
  fabric_->mark_lost(1);
  int lost = 0;
  for (std::uint64_t slab = 0; slab < 3; ++slab) {
    const Transfer transfer{slab * kSlabBytes, LocalSpan(value)};
    if (io->read({&transfer, 1}, soon()) == Status::lost) ++lost;
  }
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(io->discard(0, space->bytes(), soon()), Status::done) << "afterwards there is nothing to be lost";
  const Transfer transfer{kSlabBytes, LocalSpan(value)};
  EXPECT_EQ(io->read({&transfer, 1}, soon()), Status::done);
  EXPECT_EQ(value, 0U);
}

// A store goes on although the node that had the rest of the slab is lost. What is written is there, the rest is lost,
// not zero, until it is written as well, block by block; a discard ends it.
TEST_F(AFarSpace, StoresElsewhereWhatBelongsOnALostNode) {
  constexpr std::uint64_t kBlock = 4096;
  start_nodes(8);
  const auto space = open(1, 1);
  const auto io = space->open_io();
  std::vector<std::byte> bytes(kBlock, std::byte{7});
  const auto at = [&bytes](std::uint64_t offset, std::uint64_t size) {
    return std::vector<Transfer>{{offset, LocalSpan(bytes.data(), size)}};
  };
  const auto lost_blocks = [&] {
    std::vector<std::uint64_t> lost;
    for (std::uint64_t block = 0; block < kSlabBytes / kBlock; ++block) {
      if (io->read(at(block * kBlock, kBlock), soon()) == Status::lost) lost.push_back(block);
    }
    return lost;
  };
  ASSERT_EQ(io->write(at(0, kBlock), soon()), Status::done);
  const PeerId only = space->slabs().place(0)[0].node->peer();
  fabric_->mark_lost(only);
  EXPECT_EQ(lost_blocks(), (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(space->slabs().take_losses(), (std::vector<Loss>{{.offset = 0, .node = only}}));
  EXPECT_EQ(space->slabs().take_losses(), std::vector<Loss>{});

  bytes.assign(kBlock, std::byte{9});
  EXPECT_EQ(io->write(at(kBlock, kBlock), soon()), Status::done);
  EXPECT_EQ(lost_blocks(), (std::vector<std::uint64_t>{0, 2, 3}));
  EXPECT_EQ(io->write(at(2 * kBlock + 8, kBlock - 8), soon()), Status::lost) << "its first bytes are lost";
  EXPECT_EQ(io->write(at(2 * kBlock, 8), soon()), Status::lost);
  EXPECT_EQ(lost_blocks(), (std::vector<std::uint64_t>{0, 2, 3}));
  for (const std::uint64_t block : {0, 2, 3}) EXPECT_EQ(io->write(at(block * kBlock, kBlock), soon()), Status::done);
  EXPECT_EQ(lost_blocks(), std::vector<std::uint64_t>{});
  EXPECT_EQ(bytes.back(), std::byte{9});
  EXPECT_EQ(space->slabs().count_copies(), (CopyCounts{.whole = 1}));

  fabric_->mark_lost(space->slabs().place(0)[0].node->peer());
  EXPECT_EQ(io->write(at(0, kBlock), soon()), Status::done);
  EXPECT_EQ(io->discard(0, kSlabBytes, soon()), Status::done);
  EXPECT_EQ(lost_blocks(), std::vector<std::uint64_t>{});
  EXPECT_EQ(bytes.back(), std::byte{0});
}

TEST_F(AFarSpace, TakesMemoryAsItIsWrittenToAndGivesBackWhatIsDiscarded) {
  start_nodes(4);
  const auto space = open(12, 1);
  const auto io = space->open_io();
  std::vector<std::byte> bytes(kSlabBytes, std::byte{1});
  const Transfer across{kSlabBytes / 2, LocalSpan(bytes.data(), bytes.size())};  // the ends of two slabs
  EXPECT_EQ(io->read({&across, 1}, soon()), Status::done);
  EXPECT_EQ(bytes.front(), std::byte{0});
  EXPECT_EQ(use().taken, 0U);
  ASSERT_EQ(io->write({&across, 1}, soon()), Status::done);
  EXPECT_EQ(use().taken, 2U);
  ASSERT_EQ(io->discard(0, space->bytes(), soon()), Status::done);
  EXPECT_TRUE(test::eventually([&] { return use().bare + use().free == 12; }));
}

// However small the pieces are in which it is discarded.
TEST_F(AFarSpace, GivesBackASlabThatWasDiscardedPieceByPiece) {
  start_nodes(4);
  const auto space = open(2, 2);
  const auto io = space->open_io();
  std::vector<std::byte> bytes(2 * kSlabBytes, std::byte{1});
  const Transfer all{0, LocalSpan(bytes.data(), bytes.size())};
  ASSERT_EQ(io->write({&all, 1}, soon()), Status::done);
  EXPECT_EQ(use().taken, 4U);
  for (std::uint64_t offset = 0; offset < kSlabBytes; offset += 4096) {
    ASSERT_EQ(io->discard(offset, 4096, soon()), Status::done);
  }
  EXPECT_EQ(use().taken, 2U);
  ASSERT_EQ(io->read({&all, 1}, soon()), Status::done);
  EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), kSlabBytes);
}

// That a block is zeros is known here.
TEST_F(AFarSpace, WritesNothingToDiscardWholeBlocks) {
  start_nodes(4);
  test::InterposedFabric fabric(*fabric_);
  int writes = 0;
  fabric.before_each([&writes](const Operation& operation) {
    if (operation.kind == Operation::Kind::write) ++writes;
  });
  StripedSpace space(fabric, kSelf, SpaceShape{2 * kSlabBytes, kSlabBytes, 2});
  for (auto& node : nodes_) space.slabs().add(node->join());
  const auto io = space.open_io();
  std::vector<std::byte> bytes(2 * kSlabBytes, std::byte{1});
  const Transfer all{0, LocalSpan(bytes.data(), bytes.size())};
  ASSERT_EQ(io->write({&all, 1}, soon()), Status::done);
  EXPECT_EQ(writes, 4);
  for (std::uint64_t offset = 0; offset < kSlabBytes + 4096; offset += 4096) {
    ASSERT_EQ(io->discard(offset, 4096, soon()), Status::done);
  }
  EXPECT_EQ(writes, 4);
  ASSERT_EQ(io->discard(2 * kSlabBytes - 8, 8, soon()), Status::done);
  EXPECT_EQ(writes, 6) << "a part of a block is overwritten, at both nodes";
}

// What a block of zeros had before is still in the memory of its node.
TEST_F(AFarSpace, HasZerosAroundWhatIsWrittenInADiscardedBlock) {
  start_nodes(4);
  const auto space = open(1, 1);
  const auto io = space->open_io();
  std::vector<std::byte> bytes(kSlabBytes, std::byte{1});
  const Transfer all{0, LocalSpan(bytes.data(), bytes.size())};
  ASSERT_EQ(io->write({&all, 1}, soon()), Status::done);
  ASSERT_EQ(io->discard(100, 3 * 4096, soon()), Status::done);
  std::array<std::byte, 8> few{};
  few.fill(std::byte{2});
  const Transfer part{4096 + 200, LocalSpan(few.data(), few.size())};
  ASSERT_EQ(io->write({&part, 1}, soon()), Status::done);
  std::vector<std::byte> expected(kSlabBytes, std::byte{1});
  std::fill_n(expected.begin() + 100, 3 * 4096, std::byte{0});
  std::ranges::copy(few, expected.begin() + 4096 + 200);
  ASSERT_EQ(io->read({&all, 1}, soon()), Status::done);
  EXPECT_EQ(bytes, expected);
}

TEST_F(AFarSpace, SaysThatItIsFullAndWritesWhatHasAPlace) {
  start_nodes(1);
  const auto space = open(4, 1);
  const auto io = space->open_io();
  std::uint64_t value = 1;
  for (std::uint64_t slab = 0; slab < 3; ++slab) {
    const Transfer transfer{slab * kSlabBytes, LocalSpan(value)};
    ASSERT_EQ(io->write({&transfer, 1}, soon()), Status::done);
  }
  std::uint64_t second = 2;
  const std::vector<Transfer> both{{3 * kSlabBytes, LocalSpan(second)}, {0, LocalSpan(second)}};
  EXPECT_EQ(io->write(both, soon()), Status::full);
  const Transfer first{0, LocalSpan(value)};
  ASSERT_EQ(io->read({&first, 1}, soon()), Status::done);
  EXPECT_EQ(value, 2U);
}

TEST_F(AFarSpace, FindsNoRoomWhereNoNodeLives) {
  start_nodes(2);
  const auto space = open(1, 1);
  for (PeerId node = 0; node < kNodes; ++node) fabric_->mark_lost(node);
  std::uint64_t value = 1;
  const Transfer transfer{0, LocalSpan(value)};
  EXPECT_EQ(space->open_io()->write({&transfer, 1}, soon()), Status::lost);
}

TEST(RoomForMirrors, IsWhatFindsAPartnerOnAnotherNode) {
  const auto room = [](std::vector<std::uint64_t> free_slabs, std::uint32_t copies) {
    return room_for(free_slabs, copies);
  };
  EXPECT_EQ(room({}, 2), 0U);
  EXPECT_EQ(room({10}, 2), 0U);
  EXPECT_EQ(room({10, 2}, 2), 2U);
  EXPECT_EQ(room({4, 4, 3}, 2), 5U);
  EXPECT_EQ(room({10, 2, 3}, 2), 5U);
  EXPECT_EQ(room({10, 2, 3}, 1), 15U);
}

TEST_F(AFarSpace, RefusesWhatLiesBeyondItsEnd) {
  start_nodes(1);
  const auto space = open(1, 1);
  std::uint64_t value = 0;
  const Transfer beyond{kSlabBytes - 4, LocalSpan(value)};
  EXPECT_ANY_THROW((void)space->open_io()->read({&beyond, 1}, soon()));
}

}  // namespace
}  // namespace farside::far
