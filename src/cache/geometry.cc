#include "cache/geometry.h"

#include <algorithm>
#include <bit>
#include <string>

#include "farside/base/error.h"
#include "farside/base/rounding.h"
#include "farside/base/units.h"

#include "base/assert.h"

namespace farside::cache {

namespace {

constexpr std::uint64_t kAlternativePerSlot = 4;
constexpr std::uint64_t kMinimumBlock = 4096;
constexpr std::uint64_t kMaximumBlock = 64U << 20U;
constexpr std::uint64_t kPage = 4096;

void require(bool holds, const char* option, const std::string& value, const char* remedy) {
  if (!holds) throw UsageError({"make a cache with", std::string(option) + " " + value, "it is out of range", remedy});
}

}  // namespace

Geometry::Geometry(const CacheOptions& options, team::Rank size, const CacheRules& rules)
    : groups_(options.groups), size_(size), deals_ranks_to_groups_(rules.deals_ranks_to_groups) {
  require(std::has_single_bit(options.block_bytes) && options.block_bytes >= kMinimumBlock &&
              options.block_bytes <= kMaximumBlock,
          "--block", format_bytes(options.block_bytes), "choose a power of two from 4K to 64M");
  require(options.groups >= 1 && options.groups <= std::min<team::Rank>(size, 64), "--groups",
          std::to_string(options.groups), "choose from 1 to the number of nodes, 64 at most");
  require(options.singlet_ratio >= 0 && options.singlet_ratio <= 1, "--singlet-ratio",
          std::to_string(options.singlet_ratio), "choose from 0 to 1");

  const std::uint64_t slots = options.cache_bytes / options.block_bytes;
  require(slots >= 2 && slots <= kMaximumSlots, "--cache", format_bytes(options.cache_bytes),
          "choose from 2 to 16 million blocks");

  layout_.block_bytes = options.block_bytes;
  layout_.slot_count = slots;
  layout_.index_buckets = std::min(std::bit_ceil(slots / 2 + 1), std::uint64_t{1} << 24U);
  layout_.index_offset = round_up(slots * bucket_bytes() + slots * kAlternativePerSlot * 8, kPage);
  layout_.slots_offset = round_up(layout_.index_offset + layout_.index_buckets * sizeof(IndexBucket), kPage);
  layout_.region_bytes = layout_.slots_offset + slots * slot_stride(options.block_bytes);
}

Geometry::Home Geometry::bucket_of(BlockId id) const noexcept {
  const std::uint64_t bucket = id % (layout_.slot_count * size_);
  return {static_cast<team::Rank>(bucket % size_), bucket / size_ * bucket_bytes()};
}

std::uint32_t Geometry::group_of(team::Rank rank) const noexcept {
  assert_that(rank < size_, "a node's rank is one of the pool's");
  if (deals_ranks_to_groups_) return rank % groups_;
  return static_cast<std::uint32_t>(std::uint64_t{rank} * groups_ / size_);
}

Geometry::Members Geometry::members_of(std::uint32_t group) const noexcept {
  assert_that(group < groups_, "a group's number is below the number of groups");
  if (deals_ranks_to_groups_) return {group, static_cast<team::Rank>(div_ceil(size_ - group, groups_)), groups_};
  const auto first_of = [this](std::uint64_t g) { return static_cast<team::Rank>(div_ceil(g * size_, groups_)); };
  return {first_of(group), first_of(group + 1) - first_of(group), 1};
}

Geometry::Home Geometry::alternative_of(BlockId id, std::uint32_t group) const noexcept {
  const Members members = members_of(group);
  assert_that(members.count != 0, "every group has a member");
  const std::uint64_t entry = mix(id) % (layout_.slot_count * kAlternativePerSlot * members.count);
  const std::uint64_t table = layout_.slot_count * bucket_bytes();
  return {static_cast<team::Rank>(members.first + entry % members.count * members.step),
          table + entry / members.count * 8};
}

std::uint64_t Geometry::block_length(const BlockKey& key) const noexcept {
  const std::uint64_t blocks_before = key.file.bytes / layout_.block_bytes;
  if (key.index > blocks_before) return 0;
  return std::min(layout_.block_bytes, key.file.bytes - key.index * layout_.block_bytes);
}

}  // namespace farside::cache
