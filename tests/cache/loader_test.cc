// Loaders that die or are slow: no reader waits for ever, and no node's work is undone.
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "cache/geometry.h"
#include "tests/cache/test_pool.h"

namespace farside::test {
namespace {

constexpr cache::CacheOptions kOptions{.cache_bytes = 16 * kBlock, .block_bytes = kBlock};

// Node 1 begins to load a block and is held there, in the middle of its source, until it is released.
class Loader : public testing::Test {
 protected:
  void hold_loader(cache::CacheOptions options) {
    pool_.emplace(2, options);
    pool_->source.on_load = [this](const cache::BlockKey&) {
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
  static cache::BlockKey listed_at_node_0() {
    const cache::Geometry geometry(kOptions, 2);
    std::uint64_t number = 1;
    while (geometry.bucket_of(cache::block_id(key_of(number))).rank != 0) ++number;
    return key_of(number);
  }

  const cache::BlockKey key_ = listed_at_node_0();
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
  cache::CacheOptions options = kOptions;
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
  EXPECT_EQ(node.cache->acquire(*node.channel, key_, pool_->source, soon).answer, cache::Acquired::Answer::late);
  EXPECT_EQ(pool_->source.loads, 1);
  release_loader();
  EXPECT_TRUE(pool_->reads(0, key_));
  EXPECT_EQ(pool_->source.loads, 1);
}

// A cell changes while its loader is inside the file system, so that a node that waits for it sees that the loader
// lives.
class RenewedLoader : public Loader {
 protected:
  RenewedLoader() {
    cache::CacheOptions options = kOptions;
    options.loading_lease = std::chrono::milliseconds(20);
    hold_loader(options);
    renewer_ = std::make_unique<InterposedChannel>(pool_->nodes[1].team->fabric().open_channel());
  }
  void renew() {
    Node& node = pool_->nodes[1];
    node.cache->renew_leases(*renewer_, node.soon());
  }
  /// Renews until the cell shows it.
  [[nodiscard]] cache::Cell renewed(const cache::Cell& before) {
    cache::Cell now = before;
    const Deadline end = pool_->nodes[1].soon();
    while (now.word() == before.word() && pool_->nodes[1].team->fabric().now() < end.at) {
      renew();
      now = pool_->cell_of(key_);
    }
    return now;
  }
  [[nodiscard]] cache::Cell after_the_load() {
    release_loader();
    return pool_->cell_of(key_);
  }

  std::unique_ptr<InterposedChannel> renewer_;
};

TEST_F(RenewedLoader, ShowsThatItLives) {
  const cache::Cell before = pool_->cell_of(key_);
  const cache::Cell after = renewed(before);
  EXPECT_EQ(after.word(), before.loading_at(before.place()).word());
  const cache::Cell loaded = after_the_load();
  EXPECT_EQ(loaded.word(), after.loaded_at(after.place()).word());
  renew();  // nothing is under way any more
  EXPECT_EQ(pool_->cell_of(key_).word(), loaded.word());
  EXPECT_TRUE(pool_->reads(0, key_));
  EXPECT_EQ(pool_->source.loads, 1);
}

TEST_F(RenewedLoader, EndsWhileItsLeaseIsRenewed) {
  bool is_released = false;
  renewer_->before_each([&](const Operation&) {
    if (!std::exchange(is_released, true)) released_.set_value();
  });
  const cache::Cell before = pool_->cell_of(key_);
  (void)renewed(before);
  loader_.join();
  EXPECT_EQ(pool_->cell_of(key_).state, cache::Cell::State::loaded);
  EXPECT_TRUE(pool_->reads(0, key_));
  EXPECT_EQ(pool_->source.loads, 1);
}

TEST_F(RenewedLoader, LeavesACellThatAnotherTookOver) {
  ASSERT_TRUE(pool_->reads(0, key_));  // after the lease, which was not renewed
  const cache::Cell successor = pool_->cell_of(key_);
  const Time start = pool_->nodes[1].team->fabric().now();
  while (pool_->nodes[1].team->fabric().now() - start < std::chrono::milliseconds(20)) renew();
  EXPECT_EQ(pool_->cell_of(key_).word(), successor.word());
  EXPECT_EQ(after_the_load().word(), successor.word());
}

// A thread that waits for another node's load may do something else meanwhile. The lease goes on all the same.
TEST_F(Loader, IsLeftAloneForAWhileByAThreadThatAsksAgain) {
  cache::CacheOptions options = kOptions;
  options.loading_lease = std::chrono::milliseconds(200);
  hold_loader(options);
  Node& node = pool_->nodes[0];
  cache::LoaderWatch watch;
  cache::Acquired last = node.cache->acquire(*node.channel, key_, pool_->source, node.soon(), &watch);
  EXPECT_TRUE(last.answer == cache::Acquired::Answer::elsewhere || pool_->source.loads == 2);
  while (last.answer == cache::Acquired::Answer::elsewhere) {
    last = node.cache->acquire(*node.channel, key_, pool_->source, node.soon(), &watch);
  }
  EXPECT_EQ(last.answer, cache::Acquired::Answer::here);
  EXPECT_EQ(pool_->source.loads, 2);
  release_loader();
}

// A loader that was only slow comes back when another has taken its place: the directory goes on naming the other.
TEST_F(Loader, ThatWasReplacedDoesNotOverwriteItsSuccessor) {
  cache::CacheOptions options = kOptions;
  options.loading_lease = std::chrono::milliseconds(20);
  hold_loader(options);
  ASSERT_TRUE(pool_->reads(0, key_));
  const cache::Cell successor = pool_->cell_of(key_);
  EXPECT_EQ(successor.state, cache::Cell::State::loaded);
  EXPECT_EQ(successor.rank, 0u);
  release_loader();
  EXPECT_EQ(pool_->cell_of(key_).word(), successor.word());
}

}  // namespace
}  // namespace farside::test
