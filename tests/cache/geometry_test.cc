#include "cache/geometry.h"

#include <map>

#include <gtest/gtest.h>

#include "farside/base/error.h"

namespace farside::cache {
namespace {

CacheOptions small_options() { return {.cache_bytes = 64 * 4096, .block_bytes = 4096, .groups = 2}; }

// Rows are dealt to all nodes alike, so that no node is asked more than others.
TEST(Geometry, SpreadsBucketsEvenly) {
  const Geometry geometry(small_options(), 4);
  std::map<team::Rank, int> count;
  for (std::uint64_t i = 0; i < 4000; ++i) ++count[geometry.bucket_of(mix(i) >> 1U).rank];
  for (const auto& [rank, n] : count) EXPECT_NEAR(n, 1000, 150) << rank;
}

TEST(Geometry, KeepsAlternativesWithinTheGroup) {
  for (const bool dealt : {true, false}) {
    const Geometry geometry(small_options(), 5, {.deals_ranks_to_groups = dealt});
    for (std::uint64_t i = 0; i < 1000; ++i) {
      for (std::uint32_t group = 0; group < 2; ++group) {
        const team::Rank home = geometry.alternative_of(mix(i), group).rank;
        EXPECT_LT(home, 5u);
        EXPECT_EQ(geometry.group_of(home), group);
      }
    }
  }
}

TEST(Geometry, DealsNeighboursToDifferentGroups) {
  const Geometry dealt(small_options(), 4);
  const Geometry rows(small_options(), 4, {.deals_ranks_to_groups = false});
  EXPECT_NE(dealt.group_of(0), dealt.group_of(1));
  EXPECT_EQ(dealt.group_of(0), dealt.group_of(2));
  EXPECT_EQ(rows.group_of(0), rows.group_of(1));
  EXPECT_NE(rows.group_of(0), rows.group_of(2));
}

// Parts must not overlap: everything the directories can name lies before the index.
TEST(Geometry, KeepsThePartsApart) {
  const Geometry geometry(small_options(), 3);
  const CacheLayout& layout = geometry.layout();
  const std::uint64_t directory_end = layout.slot_count * geometry.bucket_bytes();
  for (std::uint64_t i = 0; i < 5000; ++i) {
    EXPECT_LE(geometry.bucket_of(mix(i) >> 1U).offset + geometry.bucket_bytes(), directory_end);
    EXPECT_GE(geometry.alternative_of(mix(i), 1).offset, directory_end);
    EXPECT_LE(geometry.alternative_of(mix(i), 1).offset + 8, layout.index_offset);
  }
  EXPECT_LE(layout.index_offset + layout.index_buckets * sizeof(IndexBucket), layout.slots_offset);
  EXPECT_EQ(geometry.slot_offset(layout.slot_count), layout.region_bytes);
}

TEST(Geometry, CutsTheLastBlockAtTheEndOfTheFile) {
  const Geometry geometry(small_options(), 2);
  const FileIdentity file{.file_system = 1, .inode = 2, .bytes = 10000, .modified_ns = 3, .changed_ns = 4};
  EXPECT_EQ(geometry.block_length({file, 0}), 4096u);
  EXPECT_EQ(geometry.block_length({file, 2}), 10000u - 8192u);
  EXPECT_EQ(geometry.block_length({file, 3}), 0u);
  EXPECT_EQ(geometry.block_length({file, ~0ULL}), 0u);
}

TEST(Geometry, RefusesWhatCannotBe) {
  const auto refused = [](CacheOptions options) { EXPECT_THROW(Geometry(options, 4), UsageError); };
  refused({.block_bytes = 5000});
  refused({.block_bytes = 1024});
  refused({.block_bytes = 128U << 20U});
  refused({.groups = 0});
  refused({.groups = 5});
  refused({.singlet_ratio = 1.5});
  refused({.cache_bytes = 1U << 20U, .block_bytes = 1U << 20U});
  refused({.cache_bytes = 1ULL << 50U, .block_bytes = 4096});
}

}  // namespace
}  // namespace farside::cache
