// Slabs whose node does not say in time that it has taken them back: they go back in the end, once.
#include "far/protocol/slab_returns.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "farside/fabric/fabric.h"

#include "far/protocol/layout.h"
#include "tests/support/interposed_team.h"

namespace farside::far {
namespace {

using namespace std::chrono_literals;

constexpr PeerId kNode = 0;
constexpr Holder kHolder = 7;
constexpr SlabWord kFree{SlabState::free, 0};
constexpr SlabWord kTaken{SlabState::taken, kHolder};
constexpr SlabWord kReturned{SlabState::returned, kHolder};

/// A node of one slab, of which the test is the lender. The client has taken it, and its return times out.
class SlabReturnsTest : public testing::Test {
 protected:
  SlabReturnsTest() {
    fabric_->connect(kNode, fabric_->address());
    own_ = fabric_->attach(kNode, table_->handle());
    table_->word<ControlWord>(offsetof(TableHead, magic)).store(kTableMagic);
    table_->word<ControlWord>(offsetof(TableHead, slab_bytes)).store(kSlabBytes);
    table_->word<ControlWord>(offsetof(TableHead, slabs)).store(1);
    set(kFree);
    node_ = std::make_unique<LentMemory>(*fabric_, fabric_->attach(kNode, table_->handle()),
                                         fabric_->attach(kNode, memory_->handle()), kHolder);
    client_.before_each([this](const Operation& operation) {
      if (operation.kind == Operation::Kind::compare_swap) seen_ += 'c';
    });
    client_.before_each_flush([this](PeerId, Deadline) {
      seen_ += 'f';
      return std::exchange(flush_ends_with_, Outcome::done);
    });
    take(*channel_);
  }

  void set(SlabWord word) {
    const Result<std::uint64_t> before =
        channel_->swap(own_->word<AtomicWord>(word_offset(0)), word.bits(), fabric_->in(60s));
    ASSERT_TRUE(before.done());
  }
  void expect(SlabWord word) { EXPECT_EQ(table_->word<AtomicWord>(word_offset(0)).load(), word.bits()); }
  void take(Channel& channel) {
    SlabNumber slab = 1;
    ASSERT_EQ(node_->take(channel, slab, fabric_->in(60s)), LentMemory::Take::taken);
    ASSERT_EQ(slab, 0U);
  }
  /// The node has taken the slab back, or has not.
  void give_back_in_doubt(bool landed) {
    client_.end_each([this, landed](const Operation& operation) {
      if (operation.kind != Operation::Kind::compare_swap) return Outcome::done;
      if (!landed) set({SlabState::taken, kHolder + 1});
      return Outcome::timed_out;
    });
    returns_.give_back({node_.get(), 0});
    client_.end_each({});
    flush_ends_with_ = Outcome::timed_out;  // so it says once that something failed
    if (!landed) set(kTaken);
  }
  void settle() {
    LentMemory* const nodes[] = {node_.get()};
    returns_.settle(nodes, *channel_);
  }

  static constexpr std::uint64_t kSlabBytes = 4096;
  std::unique_ptr<Fabric> fabric_ = make_host_fabric({});
  std::unique_ptr<Region> table_ = fabric_->create_region("table", table_bytes(1));
  std::unique_ptr<Region> memory_ = fabric_->create_region("memory", kSlabBytes);
  std::unique_ptr<RemoteRegion> own_;
  std::unique_ptr<LentMemory> node_;
  std::unique_ptr<Channel> channel_ = fabric_->open_channel();
  test::InterposedFabric client_{*fabric_};
  SlabReturns returns_{client_};
  Outcome flush_ends_with_ = Outcome::done;
  std::string seen_;  ///< of each channel that slabs go back through: c, a COMPARE_SWAP; f, a flush
};

TEST_F(SlabReturnsTest, AskAgainWhenTheRequestCanLandNoMore) {
  give_back_in_doubt(false);
  EXPECT_EQ(seen_, "c");
  settle();
  expect(kReturned);
  EXPECT_EQ(seen_, "cffc");
  settle();
  EXPECT_EQ(seen_, "cffc");
}

TEST_F(SlabReturnsTest, AskNoMoreForWhatTheNodeHasTakenBack) {
  give_back_in_doubt(true);
  set(kFree);
  settle();
  settle();
  expect(kFree);
  EXPECT_EQ(seen_, "cff");
}

TEST_F(SlabReturnsTest, LeaveASlabThatWasTakenAnew) {
  give_back_in_doubt(true);
  set(kFree);
  take(*channel_);
  settle();
  expect(kTaken);
}

// Its word says already that it is taken, and no thread has counted that.
TEST_F(SlabReturnsTest, LeaveASlabThatIsBeingTakenAnew) {
  give_back_in_doubt(true);
  set(kFree);
  test::InterposedChannel taker(fabric_->open_channel());
  taker.before_each([this](const Operation& operation) {
    if (operation.kind != Operation::Kind::compare_swap) return;
    set(kTaken);
    settle();
    expect(kTaken);
    set(kFree);
  });
  take(taker);
  settle();
  expect(kTaken);
}

}  // namespace
}  // namespace farside::far
