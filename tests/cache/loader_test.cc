// Loaders that die or are slow: nobody waits for ever, and nobody's work is undone.
#include <future>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "cache/geometry.h"
#include "tests/cache/test_pool.h"

namespace farside::test {
namespace {

constexpr CacheOptions kOptions{.cache_bytes = 16 * kBlock, .block_bytes = kBlock};

// Node 1 begins to load a block and is held there, in the middle of its source, until it is released.
class Loader : public testing::Test {
 protected:
  void hold_loader(CacheOptions options) {
    pool_.emplace(2, options);
    pool_->source.on_load = [this](const BlockKey&) {
      if (pool_->source.loads != 1) return;
      loading_.set_value();
      released_.get_future().wait();
    };
    loader_ = std::jthread([this] { EXPECT_TRUE(pool_->reads(1, key_)); });
    loading_.get_future().wait();
  }
  void release_loader() {
    released_.set_value();
    loader_.join();
  }

  // A block whose row is at node 0, so that losing node 1 loses the loader and not the directory.
  static BlockKey listed_at_node_0() {
    const Geometry geometry(kOptions, 2);
    std::uint64_t number = 1;
    while (geometry.bucket_of(block_id(key_of(number))).rank != 0) ++number;
    return key_of(number);
  }

  const BlockKey key_ = listed_at_node_0();
  std::optional<TestPool> pool_;
  std::promise<void> loading_;
  std::promise<void> released_;
  std::jthread loader_;
};

TEST_F(Loader, IsReplacedWhenItIsDead) {
  hold_loader(kOptions);
  pool_->nodes[0].team->fabric().mark_lost(1);
  EXPECT_TRUE(pool_->reads(0, key_));
  EXPECT_EQ(pool_->source.loads, 2);
  release_loader();
}

TEST_F(Loader, IsReplacedWhenItIsSilentForTheLease) {
  CacheOptions options = kOptions;
  options.loading_lease = std::chrono::milliseconds(20);
  hold_loader(options);
  EXPECT_TRUE(pool_->reads(0, key_));
  EXPECT_EQ(pool_->source.loads, 2);
  release_loader();
}

// Without a reason to give the loader up, one waits for it: this is what keeps a crowd off the file system.
TEST_F(Loader, IsWaitedForWithinItsLease) {
  hold_loader(kOptions);
  Node& node = pool_->nodes[0];
  const Deadline soon = node.team->fabric().in(std::chrono::milliseconds(50));
  EXPECT_EQ(node.cache->acquire(*node.channel, key_, pool_->source, soon).answer, Acquired::Answer::late);
  EXPECT_EQ(pool_->source.loads, 1);
  release_loader();
  EXPECT_TRUE(pool_->reads(0, key_));
  EXPECT_EQ(pool_->source.loads, 1);
}

// A loader that was only slow comes back when another has taken its place: the directory goes on naming the other.
TEST_F(Loader, ThatWasReplacedDoesNotOverwriteItsSuccessor) {
  CacheOptions options = kOptions;
  options.loading_lease = std::chrono::milliseconds(20);
  hold_loader(options);
  ASSERT_TRUE(pool_->reads(0, key_));
  const Cell successor = pool_->cell_of(key_);
  EXPECT_EQ(successor.state, Cell::State::loaded);
  EXPECT_EQ(successor.rank, 0u);
  release_loader();
  EXPECT_EQ(pool_->cell_of(key_).word(), successor.word());
}

}  // namespace
}  // namespace farside::test
