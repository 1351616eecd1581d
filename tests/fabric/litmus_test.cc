// The memory model's rules of order (docs/protocols/fabric.md), each as a small program with what it allows and
// what it forbids. Numbers written grow with the rounds, so that an old value is a smaller one.
#include "tests/fabric/litmus.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace farside::test {
namespace {

constexpr std::uint64_t kFlag = 0;
constexpr std::uint64_t kData = 4096;
constexpr std::uint64_t kRegionBytes = 16384;

enum class Order {
  none,
  fence,
  flush,
  reversed,  ///< the mutant: the flag goes first, and the data only after everybody saw the flag
};

Outcome put_in_order(const Mesh& mesh, Order order, PeerId data_target) {
  switch (order) {
    case Order::none: return Outcome::done;
    case Order::fence: return mesh.channel->fence(data_target, mesh.patience());
    case Order::flush:
    case Order::reversed: return mesh.channel->flush(data_target, mesh.patience());
  }
  return Outcome::done;
}

/// Enters what an observer saw in `data` after it had seen the flag of `round`.
void note(Sightings& seen, std::span<const std::uint64_t> data, std::uint64_t round) {
  bool strong = true;
  for (const std::uint64_t word : data) {
    if (word > round) ++seen.thin_air;
    strong = strong && word == round;
  }
  ++(strong ? seen.strong : seen.weak);
}

/// Message passing. Member 0 WRITEs `words` words of data to member `data_at`, puts `order` after it, and WRITEs the
/// flag to member 1. Member 1, by its CPU, and member 2, by READs, wait for the flag and look at the data.
struct MessagePassing {
  Order order;
  std::size_t words = 1;
  PeerId data_at = 1;

  static inline const std::uint64_t kLooks = 2 * kRounds;

  void run(Stage& stage) const {
    Fleet fleet(3, [&](Member& me) {
      const Mesh mesh = make_mesh(me, kRegionBytes);
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        stage.line.meet(3);
        if (me.index() == 0) {
          write(stage, mesh, round);
        } else {
          observe(stage, mesh, me.index(), round);
        }
        stage.line.meet(3);
      }
      me.barrier();
    });
    fleet.expect_success();
  }

 private:
  void write(Stage& stage, const Mesh& mesh, std::uint64_t round) const {
    std::vector<std::uint64_t> data(words, round);
    const LocalSpan data_span(data.data(), words * 8);
    const auto data_place = mesh.at(data_at).span(kData, words * 8);
    const auto flag_place = mesh.at(1).span(kFlag, 8);
    Batch batch(*mesh.channel);
    if (order == Order::reversed) {
      batch.write(flag_place, LocalSpan(round));
      ASSERT_EQ(mesh.channel->flush(1, mesh.patience()), Outcome::done);
      look_until([&] { return stage.seen.strong + stage.seen.weak == 2 * round; });
      batch.write(data_place, data_span);
    } else {
      batch.write(data_place, data_span);
      ASSERT_EQ(put_in_order(mesh, order, data_at), Outcome::done);
      batch.write(flag_place, LocalSpan(round));
    }
    ASSERT_EQ(batch.wait(mesh.patience()), Outcome::done);
    ASSERT_EQ(mesh.channel->flush(data_at, mesh.patience()), Outcome::done);
    ASSERT_EQ(mesh.channel->flush(1, mesh.patience()), Outcome::done);
  }

  void observe(Stage& stage, const Mesh& mesh, unsigned self, std::uint64_t round) const {
    std::vector<std::uint64_t> data(words);
    if (self == 1) {
      look_until([&] { return mesh.local->word<ControlWord>(kFlag).load() == round; });
      mesh.channel->local_fence();
    } else {
      look_until(
          [&] { return mesh.channel->load(mesh.at(1).word<ControlWord>(kFlag), mesh.patience()).value == round; });
    }
    if (self == data_at) {
      mesh.local->copy_out(kData, std::as_writable_bytes(std::span(data)));
    } else {
      const auto place = mesh.at(data_at).span(kData, words * 8);
      ASSERT_EQ(mesh.channel->read(LocalSpan(data.data(), words * 8), place, mesh.patience()), Outcome::done);
    }
    note(stage.seen, data, round);
  }
};

// Rule 2: a fence orders what one channel posted to one target.
TEST(Messages, FenceOrdersWritesToOneTarget) {
  const Shared<Stage> stage;
  MessagePassing{.order = Order::fence}.run(*stage);
  expect_forbidden_never_seen(stage->seen, MessagePassing::kLooks);
}

// Rules 1 and 2: the fence covers each of the accesses that a bulk WRITE is made of.
TEST(Messages, FenceCoversTheWholeOfABulkWrite) {
  const Shared<Stage> stage;
  MessagePassing{.order = Order::fence, .words = 512}.run(*stage);
  expect_forbidden_never_seen(stage->seen, MessagePassing::kLooks);
}

// Rule 3: what was flushed is visible to the target's CPU and to all readers.
TEST(Messages, FlushOrdersWritesToOneTarget) {
  const Shared<Stage> stage;
  MessagePassing{.order = Order::flush, .words = 512}.run(*stage);
  expect_forbidden_never_seen(stage->seen, MessagePassing::kLooks);
}

// Rule 2: across targets flush orders. The data lies with member 0 itself, reached through its loopback.
TEST(Messages, FlushOrdersAcrossTargets) {
  for (const PeerId data_at : {0U, 2U}) {
    const Shared<Stage> stage;
    MessagePassing{.order = Order::flush, .words = 8, .data_at = data_at}.run(*stage);
    expect_forbidden_never_seen(stage->seen, MessagePassing::kLooks);
  }
}

// Rule 2: a fence alone does not order across targets, so a protocol must not count on it.
TEST(Messages, FenceAcrossTargetsAllowsAnything) {
  const Shared<Stage> stage;
  MessagePassing{.order = Order::fence, .words = 8, .data_at = 2}.run(*stage);
  expect_anything_but_thin_air(stage->seen, MessagePassing::kLooks);
}

// Rules 1 and 2: with nothing in between, the flag may come first.
TEST(Messages, WithoutOrderAllowsAnything) {
  const Shared<Stage> stage;
  MessagePassing{.order = Order::none, .words = 512}.run(*stage);
  expect_anything_but_thin_air(stage->seen, MessagePassing::kLooks);
}

// The programs above must be able to fail: a writer that sends the flag first is caught in every round.
TEST(Messages, CatchesAFlagThatGoesFirst) {
  const Shared<Stage> stage;
  MessagePassing{.order = Order::reversed}.run(*stage);
  EXPECT_EQ(stage->seen.weak, MessagePassing::kLooks);
}

// Rule 1: the last word of a bulk WRITE may arrive before the others.
TEST(BulkWrite, LastWordProvesNothingAboutTheRest) {
  constexpr std::size_t kWords = 512;
  const Shared<Stage> stage;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, kRegionBytes);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      stage->line.meet(2);
      std::vector<std::uint64_t> data(kWords, round);
      if (me.index() == 0) {
        const auto place = mesh.at(1).span(kData, kWords * 8);
        ASSERT_EQ(mesh.channel->write(place, LocalSpan(data.data(), kWords * 8), mesh.patience()), Outcome::done);
        ASSERT_EQ(mesh.channel->flush(1, mesh.patience()), Outcome::done);
      } else {
        const auto last = mesh.local->word<ControlWord>(kData + (kWords - 1) * 8);
        look_until([&] { return last.load() == round; });
        mesh.local->copy_out(kData, std::as_writable_bytes(std::span(data)));
        note(stage->seen, data, round);
      }
      stage->line.meet(2);
    }
    me.barrier();
  });
  fleet.expect_success();
  expect_anything_but_thin_air(stage->seen, kRounds);
}

// Rule 1: a word of a bulk WRITE may be stored twice, so what its owner stored into it meanwhile may be overwritten
// after it had been seen to stand. Whichever comes last, no third value appears, and the words around are untouched.
TEST(BulkWrite, MayStoreAWordTwiceButInventsNothing) {
  constexpr std::size_t kWords = 3;  // 24 bytes: common memcpys store the middle word twice
  constexpr std::uint64_t kOwners = std::uint64_t{1} << 63;
  const Shared<Stage> stage;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, kRegionBytes);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      stage->line.meet(2);
      const auto middle = mesh.local->word<ControlWord>(kData + 8);
      if (me.index() == 0) {
        std::array<std::uint64_t, kWords> data{round, round, round};
        ASSERT_EQ(mesh.channel->write(mesh.at(1).span(kData, sizeof data), LocalSpan(data), mesh.patience()),
                  Outcome::done);
        ASSERT_EQ(mesh.channel->flush(1, mesh.patience()), Outcome::done);
      } else {
        look_until([&] { return middle.load() == round; });
        middle.store(kOwners | round);
      }
      stage->line.meet(2);
      if (me.index() == 1) {
        std::array<std::uint64_t, kWords + 1> found{};
        mesh.local->copy_out(kData, std::as_writable_bytes(std::span(found)));
        EXPECT_EQ(found[0], round);
        EXPECT_EQ(found[2], round);
        EXPECT_EQ(found[3], 0U) << "a word behind the WRITE changed";
        if (found[1] == (kOwners | round)) {
          ++stage->seen.strong;
        } else {
          ++(found[1] == round ? stage->seen.weak : stage->seen.thin_air);
        }
      }
      stage->line.meet(2);
    }
    me.barrier();
  });
  fleet.expect_success();
  expect_anything_but_thin_air(stage->seen, kRounds);
}

/// Store buffering between an owner's CPU and a remote process, both words in the owner's region. The owner stores
/// `mine` and looks at `theirs`; the other WRITEs `theirs`, flushes, and READs `mine`. Weak: neither saw the other.
/// A round goes through many such pairs of words with no meeting in between, so that the two drift past each other.
struct StoreBuffering {
  bool with_local_fence;

  static constexpr std::uint64_t kPairs = 16;
  static inline const std::uint64_t kLooks = kRounds * kPairs;
  using Found = std::array<std::array<std::atomic<std::uint64_t>, kPairs>, 2>;

  void run(Stage& stage) const {
    const Shared<Found> found;
    Fleet fleet(2, [&](Member& me) {
      const Mesh mesh = make_mesh(me, kRegionBytes);
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        stage.line.meet(2);
        if (me.index() == 0) {
          own(mesh, round, (*found)[0]);
        } else {
          reach(mesh, round, (*found)[1]);
        }
        stage.line.meet(2);
        if (me.index() == 0) judge(*found, round, stage.seen);
        stage.line.meet(2);
      }
      me.barrier();
    });
    fleet.expect_success();
  }

 private:
  static constexpr std::uint64_t mine(std::uint64_t pair) { return pair * 256; }
  static constexpr std::uint64_t theirs(std::uint64_t pair) { return pair * 256 + 128; }

  void own(const Mesh& mesh, std::uint64_t round, Found::value_type& saw) const {
    for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
      mesh.local->word<ControlWord>(mine(pair)).store(round);
      if (with_local_fence) mesh.channel->local_fence();
      saw[pair].store(mesh.local->word<ControlWord>(theirs(pair)).load(), std::memory_order_relaxed);
    }
  }

  static void reach(const Mesh& mesh, std::uint64_t round, Found::value_type& saw) {
    const Deadline deadline = mesh.patience();
    for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
      ASSERT_EQ(mesh.channel->store(mesh.at(0).word<ControlWord>(theirs(pair)), round, deadline), Outcome::done);
      ASSERT_EQ(mesh.channel->flush(0, deadline), Outcome::done);
      const Fetched found = mesh.channel->load(mesh.at(0).word<ControlWord>(mine(pair)), deadline);
      ASSERT_TRUE(found.done());
      saw[pair].store(found.value, std::memory_order_relaxed);
    }
  }

  static void judge(const Found& found, std::uint64_t round, Sightings& seen) {
    for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
      const std::uint64_t owner_saw = found[0][pair];
      const std::uint64_t other_saw = found[1][pair];
      if (std::max(owner_saw, other_saw) > round) ++seen.thin_air;
      ++(owner_saw != round && other_saw != round ? seen.weak : seen.strong);
    }
  }
};

// Rule 2: local_fence on the owner's side and flush on the other forbid that neither sees the other. Dekker's
// handshake (`busy` and `revoked` of a relocatable page) stands on this.
TEST(OwnerAndOther, LocalFenceAndFlushShowOneToTheOther) {
  const Shared<Stage> stage;
  StoreBuffering{.with_local_fence = true}.run(*stage);
  expect_forbidden_never_seen(stage->seen, StoreBuffering::kLooks);
}

// Without the local fence the owner's store may still lie in its store buffer while it looks.
TEST(OwnerAndOther, WithoutLocalFenceBothMayMissEachOther) {
  const Shared<Stage> stage;
  StoreBuffering{.with_local_fence = false}.run(*stage);
  expect_anything_but_thin_air(stage->seen, StoreBuffering::kLooks);
}

}  // namespace
}  // namespace farside::test
