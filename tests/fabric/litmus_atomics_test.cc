// The memory model's rules about atomics (docs/protocols/fabric.md), under contention of four processes of which
// one owns the words and goes through its loopback.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fabric/litmus.h"

namespace farside::test {
namespace {

constexpr unsigned kMembers = 4;
constexpr std::uint64_t kMaxEach = 500;
const std::uint64_t kEach = reduced(kMaxEach);
const std::uint64_t kAll = kMembers * kEach;

// Rule 4: no FETCH_ADD is lost, and each old value is given to one process only.
TEST(Atomics, FetchAddGivesEveryNumberOnce) {
  const Shared<std::array<std::atomic<std::uint32_t>, kMembers * kMaxEach>> taken;
  Fleet fleet(kMembers, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto word = mesh.at(0).word<AtomicWord>(8);
    for (std::uint64_t i = 0; i < kEach; ++i) {
      const Result<std::uint64_t> old =
          mesh.channel->fetch_add(word, written_in(1), mesh.deadline());  // changes every byte
      ASSERT_TRUE(old.done());
      ASSERT_LT(round_of(old.value), kAll);
      ++(*taken)[round_of(old.value)];
    }
    me.barrier();
    EXPECT_EQ(mesh.channel->load(word, mesh.deadline()).value, written_in(kAll));
    me.barrier();
  });
  fleet.expect_success();
  EXPECT_TRUE(std::ranges::all_of(std::span(*taken).first(kAll), [](const auto& times) { return times == 1; }));
}

// Rule 4: of two COMPARE_SWAPs with the same expectation one succeeds.
TEST(Atomics, CompareSwapLosesNoUpdate) {
  Fleet fleet(kMembers, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto word = mesh.at(0).word<AtomicWord>(8);
    std::uint64_t expected = 0;
    for (std::uint64_t done = 0; done < kEach;) {
      const std::uint64_t next = expected + written_in(1);
      const Result<std::uint64_t> old = mesh.channel->compare_swap(word, expected, next, mesh.deadline());
      ASSERT_TRUE(old.done());
      ASSERT_LE(round_of(old.value), kAll) << "torn";
      if (old.value == expected) ++done;
      expected = old.value == expected ? next : old.value;
    }
    me.barrier();
    EXPECT_EQ(mesh.channel->load(word, mesh.deadline()).value, written_in(kAll));
    me.barrier();
  });
  fleet.expect_success();
}

// Rule 4: tokens that are swapped through one word are neither lost nor doubled.
TEST(Atomics, SwapKeepsEveryToken) {
  const Shared<std::array<std::atomic<std::uint64_t>, kMembers>> held;
  const Shared<std::atomic<std::uint64_t>> left;
  Fleet fleet(kMembers, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto word = mesh.at(0).word<AtomicWord>(8);
    std::uint64_t token = written_in(me.index() + 1);
    for (std::uint64_t i = 0; i < kEach; ++i) {
      const Result<std::uint64_t> old = mesh.channel->swap(word, token, mesh.deadline());
      ASSERT_TRUE(old.done());
      token = old.value;
    }
    (*held)[me.index()] = token;
    me.barrier();
    if (me.index() == 0) *left = mesh.channel->load(word, mesh.deadline()).value;
    me.barrier();
  });
  fleet.expect_success();
  std::vector<std::uint64_t> tokens(held->begin(), held->end());
  tokens.push_back(*left);
  std::ranges::transform(tokens, tokens.begin(), round_of);
  std::ranges::sort(tokens);
  EXPECT_EQ(tokens, (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
}

/// Increments a plain counter at `counter_at` under a lock at member 0, taken and released by COMPARE_SWAP.
void run_locked_counter(PeerId counter_at) {
  const std::uint64_t kTurns = reduced(100);
  Fleet fleet(kMembers, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto lock = mesh.at(0).word<AtomicWord>(8);
    const auto counter = mesh.at(counter_at).word<ControlWord>(512);
    const std::uint64_t self = me.index() + 1;
    for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
      look_until([&] { return mesh.channel->compare_swap(lock, 0, self, mesh.deadline()).value == 0; });
      const Result<std::uint64_t> before = mesh.channel->load(counter, mesh.deadline());
      ASSERT_TRUE(before.done());
      ASSERT_EQ(mesh.channel->store(counter, before.value + 1, mesh.deadline()), Outcome::done);
      ASSERT_EQ(mesh.channel->flush(counter_at, mesh.deadline()), Outcome::done);
      ASSERT_EQ(mesh.channel->compare_swap(lock, self, 0, mesh.deadline()).value, self);
    }
    me.barrier();
    EXPECT_EQ(mesh.channel->load(counter, mesh.deadline()).value, kMembers * kTurns);
    me.barrier();
  });
  fleet.expect_success();
}

// Rules 3 and 4: flush, then release by COMPARE_SWAP, hands everything over to the next holder: beside the lock, and
// on another member.
TEST(Lock, ReleasedByCompareSwapHandsTheDataOver) {
  run_locked_counter(0);
  run_locked_counter(1);
}

// The mutant: increments by READ and WRITE with no lock. Both read before either writes, so one is lost, every time;
// the programs above would say so.
TEST(Lock, CatchesIncrementsWithoutIt) {
  Fleet fleet(2, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto counter = mesh.at(0).word<ControlWord>(512);
    const Result<std::uint64_t> before = mesh.channel->load(counter, mesh.deadline());
    me.barrier();
    ASSERT_EQ(mesh.channel->store(counter, before.value + 1, mesh.deadline()), Outcome::done);
    ASSERT_EQ(mesh.channel->flush(0, mesh.deadline()), Outcome::done);
    me.barrier();
    EXPECT_EQ(mesh.channel->load(counter, mesh.deadline()).value, 1U);
    me.barrier();
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
