#include "cache/alternative_directory.h"

#include "base/assert.h"

namespace farside::cache {

namespace {

constexpr std::uint64_t kPlaceMask = (1ULL << 40U) - 1;

std::uint64_t tag_of(BlockId id) { return id << 1U & ~kPlaceMask; }

std::uint64_t encode(BlockId id, Place place) {
  assert_that(place.slot < kMaximumSlots, "a slot and the one after it have room in an entry");
  return tag_of(id) | std::uint64_t{place.rank} << 24U | (place.slot + 1U);
}

}  // namespace

// A failure of any of these only loses a hint: the home is out of reach, and its entries with it.

void AlternativeDirectory::record(Channel& channel, BlockId id, Place place, Deadline deadline) const {
  const auto [home, offset] = geometry_.alternative_of(id, group_);
  (void)peers_.swap(channel, home, offset, encode(id, place), deadline);
}

void AlternativeDirectory::erase(Channel& channel, BlockId id, Place place, Deadline deadline) const {
  const auto [home, offset] = geometry_.alternative_of(id, group_);
  (void)peers_.compare_swap(channel, home, offset, encode(id, place), 0, deadline);
}

std::optional<Place> AlternativeDirectory::find(Channel& channel, BlockId id, Deadline deadline) const {
  const auto [home, offset] = geometry_.alternative_of(id, group_);
  const Result<std::uint64_t> word = peers_.load(channel, home, offset, deadline);
  const std::uint64_t slot = word.value & 0xffffffU;
  if (!word.done() || slot == 0 || (word.value & ~kPlaceMask) != tag_of(id)) return std::nullopt;
  return Place{static_cast<team::Rank>(word.value >> 24U & 0xffffU), static_cast<std::uint32_t>(slot - 1)};
}

}  // namespace farside::cache
