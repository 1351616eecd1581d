// The memory model's rules of order (docs/protocols/fabric.md), each as a small program with what it allows and
// what it forbids.
#include "tests/fabric/litmus.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
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
  reversed,  ///< the mutant: the flag goes first, and the data only after both observers saw the flag
};

Outcome put_in_order(const Mesh& mesh, Order order, PeerId data_target) {
  switch (order) {
    case Order::none: return Outcome::done;
    case Order::fence: return mesh.channel->fence(data_target, mesh.deadline());
    case Order::flush:
    case Order::reversed: return mesh.channel->flush(data_target, mesh.deadline());
  }
  return Outcome::done;
}

/// Each byte of `word` is that of one of the two.
bool is_mixture(std::uint64_t word, std::uint64_t one, std::uint64_t other) {
  for (unsigned bit = 0; bit < 64; bit += 8) {
    const auto byte = [bit](std::uint64_t of) { return (of >> bit) & 0xff; };
    if (byte(word) != byte(one) && byte(word) != byte(other)) return false;
  }
  return true;
}

/// Enters what an observer saw in `data` after it had seen the flag of `round`, in whose beginning the data was that of
/// the round before. A word that travels alone is whole; in a transfer of several one may be torn (rule 1).
void note(Sightings& seen, std::span<const std::uint64_t> data, std::uint64_t round) {
  const std::uint64_t before = written_in(round - 1);
  const std::uint64_t now = written_in(round);
  bool strong = true;
  for (const std::uint64_t word : data) {
    const bool is_allowed = data.size() == 1 ? word == before || word == now : is_mixture(word, before, now);
    if (!is_allowed) ++seen.thin_air;
    strong = strong && word == now;
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
    std::vector<std::uint64_t> data(words, written_in(round));
    std::uint64_t flag = written_in(round);
    const LocalSpan data_span(data.data(), words * 8);
    const auto data_place = mesh.at(data_at).span(kData, words * 8);
    const auto flag_place = mesh.at(1).span(kFlag, 8);
    Batch batch(*mesh.channel);
    if (order == Order::reversed) {
      batch.write(flag_place, LocalSpan(flag));
      ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
      look_until([&] { return stage.seen.strong + stage.seen.weak == 2 * round; });
      batch.write(data_place, data_span);
    } else {
      batch.write(data_place, data_span);
      ASSERT_EQ(put_in_order(mesh, order, data_at), Outcome::done);
      batch.write(flag_place, LocalSpan(flag));
    }
    ASSERT_EQ(batch.wait(mesh.deadline()), Outcome::done);
    ASSERT_EQ(mesh.channel->flush(data_at, mesh.deadline()), Outcome::done);
    ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
  }

  void observe(Stage& stage, const Mesh& mesh, unsigned self, std::uint64_t round) const {
    std::vector<std::uint64_t> data(words);
    if (self == 1) {
      look_until([&] { return mesh.local->word<ControlWord>(kFlag).load() == written_in(round); });
      mesh.channel->local_fence();
    } else {
      const auto flag = mesh.at(1).word<ControlWord>(kFlag);
      look_until([&] { return mesh.channel->load(flag, mesh.deadline()).value == written_in(round); });
    }
    if (self == data_at) {
      mesh.local->copy_out(kData, std::as_writable_bytes(std::span(data)));
    } else {
      const auto place = mesh.at(data_at).span(kData, words * 8);
      ASSERT_EQ(mesh.channel->read(LocalSpan(data.data(), words * 8), place, mesh.deadline()), Outcome::done);
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

// The programs above must be able to see a word that is put together of two rounds', wherever the cut is: where it
// travelled alone that is forbidden, and elsewhere it is not what was written.
TEST(Messages, CatchesATornWord) {
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    for (unsigned bits = 8; bits < 64; bits += 8) {
      const std::uint64_t low = (std::uint64_t{1} << bits) - 1;
      const std::array<std::uint64_t, 1> torn{(written_in(round) & low) | (written_in(round - 1) & ~low)};
      Sightings seen{};
      note(seen, torn, round);
      ASSERT_EQ(seen.thin_air, 1U) << round << ", " << bits;
      note(seen, std::array{torn[0], written_in(round)}, round);
      ASSERT_EQ(seen.thin_air, 1U);
      ASSERT_EQ(seen.weak, 2U);
    }
  }
}

// Rule 1: the last word of a bulk WRITE may arrive before the others.
TEST(BulkWrite, LastWordProvesNothingAboutTheRest) {
  constexpr std::size_t kWords = 512;
  const Shared<Stage> stage;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, kRegionBytes);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      stage->line.meet(2);
      std::vector<std::uint64_t> data(kWords, written_in(round));
      if (me.index() == 0) {
        const auto place = mesh.at(1).span(kData, kWords * 8);
        ASSERT_EQ(mesh.channel->write(place, LocalSpan(data.data(), kWords * 8), mesh.deadline()), Outcome::done);
        ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
      } else {
        const auto last = mesh.local->word<ControlWord>(kData + (kWords - 1) * 8);
        look_until([&] { return last.load() == written_in(round); });
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
  constexpr std::uint64_t kOwners = std::uint64_t{1} << 32;
  const Shared<Stage> stage;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, kRegionBytes);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      stage->line.meet(2);
      const auto middle = mesh.local->word<ControlWord>(kData + 8);
      if (me.index() == 0) {
        std::array<std::uint64_t, kWords> data{};
        data.fill(written_in(round));
        ASSERT_EQ(mesh.channel->write(mesh.at(1).span(kData, sizeof data), LocalSpan(data), mesh.deadline()),
                  Outcome::done);
        ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
      } else {
        look_until([&] { return middle.load() == written_in(round); });
        middle.store(written_in(kOwners | round));
      }
      stage->line.meet(2);
      if (me.index() == 1) {
        std::array<std::uint64_t, kWords + 1> found{};
        mesh.local->copy_out(kData, std::as_writable_bytes(std::span(found)));
        EXPECT_EQ(found[0], written_in(round));
        EXPECT_EQ(found[2], written_in(round));
        EXPECT_EQ(found[3], 0U) << "a word behind the WRITE changed";
        if (found[1] == written_in(kOwners | round)) {
          ++stage->seen.strong;
        } else {
          ++(found[1] == written_in(round) ? stage->seen.weak : stage->seen.thin_air);
        }
      }
      stage->line.meet(2);
    }
    me.barrier();
  });
  fleet.expect_success();
  expect_anything_but_thin_air(stage->seen, kRounds);
}

// Rule 1: a word that travels alone is whole, however often it is stored and looked at meanwhile: member 0 stores until
// both the owner's CPU and member 2's READs have seen it change often enough.
TEST(ControlWords, AreNeverTorn) {
  struct Progress {
    std::atomic<std::uint64_t> begun;  ///< the last round whose word may have been stored
    std::array<std::atomic<std::uint64_t>, 3> changes;
  };
  const Shared<Progress> progress;
  const auto have_seen_enough = [&] { return progress->changes[1] >= kRounds && progress->changes[2] >= kRounds; };
  Fleet fleet(3, [&](Member& me) {
    const Mesh mesh = make_mesh(me, kRegionBytes);
    const auto word = mesh.at(1).word<ControlWord>(kFlag);
    std::uint64_t last = 0;
    look_until([&] {
      if (me.index() == 0) {
        const std::uint64_t round = ++progress->begun;
        EXPECT_EQ(mesh.channel->store(word, written_in(round), mesh.deadline()), Outcome::done);
        const Outcome flushed = round % 16 == 0 ? mesh.channel->flush(1, mesh.deadline()) : Outcome::done;
        EXPECT_EQ(flushed, Outcome::done);
      } else {
        const std::uint64_t found = me.index() == 1 ? mesh.local->word<ControlWord>(kFlag).load()
                                                    : mesh.channel->load(word, mesh.deadline()).value;
        EXPECT_LE(round_of(found), progress->begun);
        if (found != std::exchange(last, found)) ++progress->changes.at(me.index());
      }
      return have_seen_enough() || testing::Test::HasFailure();
    });
    me.barrier();
  });
  fleet.expect_success();
}

// Rule 1: a copy of an owner's CPU keeps each word whole. Member 0 copies words in, which member 1 READs one at a time,
// and copies words out that member 1 stores one at a time.
TEST(OwnersCopies, KeepEachWordWhole) {
  constexpr std::size_t kWords = 13;
  constexpr std::uint64_t kStored = kData + 1024;
  const Shared<std::atomic<bool>> over;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, kRegionBytes);
    std::array<std::uint64_t, kWords> words{};
    const auto is_whole = [](std::uint64_t word) { return round_of(word) < std::uint64_t{1} << 40U; };
    for (std::uint64_t round = 1; me.index() == 0 && !*over; ++round) {
      words.fill(written_in(round));
      mesh.local->copy_in(kData, std::as_bytes(std::span(words)));
      mesh.local->copy_out(kStored, std::as_writable_bytes(std::span(words)));
      EXPECT_TRUE(std::ranges::all_of(words, is_whole));
    }
    for (std::uint64_t round = 1; me.index() == 1 && round <= kRounds; ++round) {
      for (std::size_t at = 0; at < kWords; ++at) {
        const auto stored = mesh.at(0).word<ControlWord>(kStored + 8 * at);
        EXPECT_EQ(mesh.channel->store(stored, written_in(round), mesh.deadline()), Outcome::done);
        const auto copied = mesh.channel->load(mesh.at(0).word<ControlWord>(kData + 8 * at), mesh.deadline());
        EXPECT_TRUE(copied.done() && is_whole(copied.value)) << std::hex << copied.value;
      }
    }
    if (me.index() == 1) *over = true;
    me.barrier();
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
