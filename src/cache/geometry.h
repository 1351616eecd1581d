// geometry.h — where everything lies in a node's region, and which node is asked about which block.
//
//   offset 0      directory     slot_count buckets of kBucketRows rows; a row is an id word and a cell for each group
//                 alternative   kAlternativePerSlot * slot_count entries of one word
//                 index         IndexBuckets for this host's programs (block.h)
//                 slots         slot_count times slot_stride(block_bytes)
//
// Equal on all nodes, so that every place is computed and none looked up.
#pragma once

#include <cstdint>

#include "farside/cache/cache.h"
#include "farside/team/team.h"

#include "cache/rules.h"

namespace farside::cache {

class Geometry {
 public:
  /// Throws UsageError when the options cannot be for a team of `size`.
  Geometry(const CacheOptions& options, team::Rank size, const CacheRules& rules = {});

  [[nodiscard]] const CacheLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] std::uint32_t groups() const noexcept { return groups_; }
  [[nodiscard]] std::uint32_t group_of(team::Rank rank) const noexcept;

  /// A row: an id word, then a cell for each group. With one bucket of eight rows for each slot of the pool, a full
  /// pool fills a bucket about once in a million; such a block is kept without being listed.
  static constexpr std::uint32_t kBucketRows = 8;
  [[nodiscard]] std::uint64_t row_bytes() const noexcept { return 8 * (1 + std::uint64_t{groups_}); }
  [[nodiscard]] std::uint64_t bucket_bytes() const noexcept { return kBucketRows * row_bytes(); }

  struct Home {
    team::Rank rank;
    std::uint64_t offset;
  };
  /// The bucket that lists block `id`: buckets are dealt to the ranks in turn.
  [[nodiscard]] Home bucket_of(BlockId id) const noexcept;
  /// The entry of `group`'s alternative directory for block `id`: dealt to the group's members in turn.
  [[nodiscard]] Home alternative_of(BlockId id, std::uint32_t group) const noexcept;

  [[nodiscard]] std::uint64_t slot_offset(std::uint64_t slot) const noexcept {
    return layout_.slots_offset + slot * slot_stride(layout_.block_bytes);
  }
  /// How long block `key` is; 0 when the file ends before it.
  [[nodiscard]] std::uint64_t block_length(const BlockKey& key) const noexcept;

 private:
  /// Ranks first, first + step, ...: a group's.
  struct Members {
    team::Rank first;
    team::Rank count;
    team::Rank step;
  };
  [[nodiscard]] Members members_of(std::uint32_t group) const noexcept;

  CacheLayout layout_{};
  std::uint32_t groups_;
  team::Rank size_;
  bool deals_ranks_to_groups_;
};

}  // namespace farside::cache
