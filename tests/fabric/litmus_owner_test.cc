// Rule 2 of docs/protocols/fabric.md: how an owner's CPU and a remote process see each other's stores.
#include <algorithm>
#include <array>
#include <atomic>

#include <gtest/gtest.h>

#include "tests/fabric/litmus.h"

namespace farside::test {
namespace {

constexpr std::uint64_t kRegionBytes = 4096;

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
      mesh.local->word<ControlWord>(mine(pair)).store(written_in(round));
      if (with_local_fence) mesh.channel->local_fence();
      saw[pair].store(mesh.local->word<ControlWord>(theirs(pair)).load(), std::memory_order_relaxed);
    }
  }

  static void reach(const Mesh& mesh, std::uint64_t round, Found::value_type& saw) {
    const Deadline deadline = mesh.deadline();
    for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
      ASSERT_EQ(mesh.channel->store(mesh.at(0).word<ControlWord>(theirs(pair)), written_in(round), deadline),
                Outcome::done);
      ASSERT_EQ(mesh.channel->flush(0, deadline), Outcome::done);
      const Result<std::uint64_t> found = mesh.channel->load(mesh.at(0).word<ControlWord>(mine(pair)), deadline);
      ASSERT_TRUE(found.done());
      saw[pair].store(found.value, std::memory_order_relaxed);
    }
  }

  static void judge(const Found& found, std::uint64_t round, Sightings& seen) {
    for (std::uint64_t pair = 0; pair < kPairs; ++pair) {
      const std::uint64_t owner_saw = round_of(found[0][pair]);
      const std::uint64_t other_saw = round_of(found[1][pair]);
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
