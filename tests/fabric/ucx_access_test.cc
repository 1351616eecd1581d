// What the UCX engine reads, writes and changes, between real processes over TCP on the loopback device.
#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/fabric/ucx_node.h"

namespace farside::test {
namespace {

// Everything else stands on this. Odd places and sizes, because the transport cuts into pieces of its own.
TEST(UcxEngine, ReadsBackWhatItWroteAtAnySizeAndPlace) {
  Fleet fleet(2, [](Member& me) {
    Node node(64 << 20);
    node.meet(me);
    if (me.index() == 0) {
      for (const std::uint64_t bytes : {0ul, 1ul, 7ul, 8ul, 4096ul, 8193ul, 1048577ul, (64ul << 20) - 3}) {
        std::vector<std::uint8_t> sent(bytes);
        for (std::uint64_t i = 0; i < bytes; ++i) sent[i] = static_cast<std::uint8_t>(i * 31 + bytes);
        std::vector<std::uint8_t> found(bytes);
        ASSERT_EQ(node.write(1, 3, sent.data(), bytes), Outcome::done) << bytes;
        ASSERT_EQ(node.channel->flush(1, default_deadline()), Outcome::done) << bytes;
        ASSERT_EQ(node.read(1, 3, found.data(), bytes), Outcome::done) << bytes;
        EXPECT_EQ(sent, found) << bytes;
      }
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A WRITE becomes visible without any call of the target, which is told. It is not told of READs: all its sleepers
// would look again for nothing.
TEST(UcxEngine, FlushedWriteIsInTheTargetsMemory) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 0;
    if (me.index() == 0) {
      ASSERT_EQ(node.read(1, 8, &value, 8), Outcome::done);
    }
    me.barrier();
    const bool is_tcp_alone = std::getenv("UCX_TLS") == nullptr;
    EXPECT_TRUE(!is_tcp_alone || node.events == 0);
    me.barrier();
    if (me.index() == 0) {
      value = 42;
      ASSERT_EQ(node.write(1, 8, &value, 8), Outcome::done);
      ASSERT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
    }
    me.barrier();
    if (me.index() == 1) {
      EXPECT_EQ(look(node.words[1]), 42u);
      EXPECT_TRUE(eventually([&] { return node.events > 0; }));
    }
    me.barrier();
  });
  fleet.expect_success();
}

TEST(UcxEngine, AtomicsReturnTheOldValueAndStoreTheNew) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    if (me.index() == 0) {
      std::uint64_t old = 0;
      ASSERT_EQ(node.run(Kind::fetch_add, 1, 0, &old, 8, default_deadline(), 5), Outcome::done);
      EXPECT_EQ(old, 0u);
      ASSERT_EQ(node.run(Kind::compare_swap, 1, 0, &old, 8, default_deadline(), 9, 4), Outcome::done);
      EXPECT_EQ(old, 5u);
      ASSERT_EQ(node.run(Kind::compare_swap, 1, 0, &old, 8, default_deadline(), 9, 5), Outcome::done);
      EXPECT_EQ(old, 5u);
      ASSERT_EQ(node.run(Kind::swap, 1, 0, &old, 8, default_deadline(), 7), Outcome::done);
      EXPECT_EQ(old, 9u);
    }
    me.barrier();
    EXPECT_EQ(look(node.words[0]), me.index() == 1 ? 7u : 0u);
    me.barrier();
  });
  fleet.expect_success();
}

// The claim of context.h: emulated atomics are locked instructions, atomic against each other and against those that
// other processes execute on the same memory.
TEST(UcxEngine, AtomicsLoseNoUpdateEvenAgainstTheOwnersInstructions) {
  constexpr std::uint64_t kRounds = 2000;
  Fleet fleet(3, [](Member& me) {
    Node node(4096);
    node.meet(me);
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      std::uint64_t old = 0;
      if (me.index() == 0) {
        for (int i = 0; i < 100; ++i) std::atomic_ref(node.words[0]).fetch_add(1);
      } else {
        ASSERT_EQ(node.run(Kind::fetch_add, 0, 0, &old, 8, default_deadline(), 1), Outcome::done);
      }
    }
    me.barrier();
    EXPECT_EQ(look(node.words[0]), me.index() == 0 ? kRounds * 102 : 0);
    me.barrier();
  });
  fleet.expect_success();
}

// Many operations under way at once, far more than the transport's buffers hold, each with its own result.
TEST(UcxEngine, ManyOperationsUnderOneCompletion) {
  Fleet fleet(2, [](Member& me) {
    Node node(1 << 20);
    node.meet(me);
    if (me.index() == 0) {
      std::vector<std::uint64_t> old(1000);
      Completion completion;
      for (std::uint64_t& place : old) {
        node.channel->post({Kind::fetch_add, node.remotes[1].get(), 0, reinterpret_cast<std::byte*>(&place), 8, 1, 0},
                           completion);
      }
      node.channel->finish(completion, default_deadline());
      ASSERT_EQ(completion.outcome, Outcome::done);
      std::sort(old.begin(), old.end());
      for (std::uint64_t i = 0; i < old.size(); ++i) EXPECT_EQ(old[i], i);
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A fence must hold a later atomic back until earlier WRITEs took effect: data, then the word that announces it.
TEST(UcxEngine, FenceOrdersAWriteBeforeALaterAtomic) {
  Fleet fleet(2, [](Member& me) {
    Node node(1 << 20);
    node.meet(me);
    constexpr std::uint64_t kRounds = 200;
    constexpr std::uint64_t kData = 4096;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      if (me.index() == 0) {
        std::vector<std::uint64_t> data(8192, round);
        std::uint64_t old = 0;
        ASSERT_EQ(node.write(1, kData, data.data(), data.size() * 8), Outcome::done);
        ASSERT_EQ(node.channel->fence(1, default_deadline()), Outcome::done);
        ASSERT_EQ(node.run(Kind::fetch_add, 1, 0, &old, 8, default_deadline(), 1), Outcome::done);
      } else {
        ASSERT_TRUE(eventually([&] { return look(node.words[0]) == round; }));
        for (const std::uint64_t word : {0u, 1000u, 8191u}) ASSERT_EQ(look(node.words[kData / 8 + word]), round);
      }
      me.barrier();
    }
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
