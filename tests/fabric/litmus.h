// litmus.h — what litmus programs share: a start line for each round, and a count of what was seen.
//
// A program runs for many rounds in several processes at once. What the memory model forbids must never be seen; what
// it allows is counted and shown with the result, and nothing is expected of the count: it may be zero for ever.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>

#include <gtest/gtest.h>
#include <sched.h>

#include "tests/support/mesh.h"
#include "tests/support/reduced.h"

namespace farside::test {

inline const std::uint64_t kRounds = reduced(1000);

/// Looks until `holds`, giving the CPU away now and then. Throws when it takes longer than any loaded machine needs.
template <class Condition>
void look_until(Condition holds) {
  const auto give_up = std::chrono::steady_clock::now() + kTimeout;
  for (unsigned looks = 1; !holds(); ++looks) {
    if (looks % 2048 != 0) continue;
    ::sched_yield();
    if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("a litmus program timed out");
  }
}

/// Lets all members start a round at the same moment, as near as may be.
class StartLine {
 public:
  void meet(unsigned members) {
    const std::uint64_t mine = arrivals_.fetch_add(1);
    const std::uint64_t all = (mine / members + 1) * members;
    look_until([&] { return arrivals_.load() >= all; });
  }

 private:
  std::atomic<std::uint64_t> arrivals_ = 0;
};

/// The word that a round writes. Those of two successive rounds differ in each of their eight bytes (no byte of the
/// factor is 0 or 255), so that a word that was torn is that of no round.
constexpr std::uint64_t written_in(std::uint64_t round) { return round * 0x9e3779b97f4a7c15; }

/// The round that wrote `word`. Of a word that was torn it is, but for one in some 2^50, a number that no round has.
constexpr std::uint64_t round_of(std::uint64_t word) { return word * 0xf1de83e19937733d; }
static_assert(round_of(written_in(1)) == 1 && round_of(written_in(1000)) == 1000);

struct Sightings {
  std::atomic<std::uint64_t> strong;    ///< everything in the order it was written
  std::atomic<std::uint64_t> weak;      ///< a later write seen, an earlier one not
  std::atomic<std::uint64_t> thin_air;  ///< a value that no process had written: always forbidden
};

/// What every litmus test keeps in memory that its processes share.
struct Stage {
  StartLine line;
  Sightings seen;
};

inline void expect_forbidden_never_seen(const Sightings& seen, std::uint64_t looks) {
  EXPECT_EQ(seen.strong, looks);
  EXPECT_EQ(seen.weak, 0U);
  EXPECT_EQ(seen.thin_air, 0U);
}

inline void expect_anything_but_thin_air(const Sightings& seen, std::uint64_t looks) {
  EXPECT_EQ(seen.strong + seen.weak, looks);
  EXPECT_EQ(seen.thin_air, 0U);
  testing::Test::RecordProperty("strong", std::to_string(seen.strong.load()));
  testing::Test::RecordProperty("weak", std::to_string(seen.weak.load()));
}

}  // namespace farside::test
