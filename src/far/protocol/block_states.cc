#include "far/protocol/block_states.h"

#include <algorithm>
#include <utility>

#include "farside/base/rounding.h"

#include "base/assert.h"

namespace farside::far {

BlockStates::BlockStates(std::uint64_t space_bytes, std::uint64_t slab_bytes, std::uint64_t block_bytes)
    : space_bytes_(space_bytes),
      slab_bytes_(slab_bytes),
      block_bytes_(block_bytes),
      blocks_of_slab_(div_ceil(slab_bytes, block_bytes)),
      blocks_(div_ceil(space_bytes, slab_bytes) * blocks_of_slab_),
      counts_(div_ceil(space_bytes, slab_bytes)) {}

std::uint64_t BlockStates::bytes_of(std::uint64_t slab) const {
  assert_that(slab * slab_bytes_ < space_bytes_, "a slab begins within its space");
  return std::min(slab_bytes_, space_bytes_ - slab * slab_bytes_);
}

std::uint64_t BlockStates::blocks_of(std::uint64_t slab) const { return div_ceil(bytes_of(slab), block_bytes_); }

// ---- Changes

void BlockStates::set(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes, BlockState state) {
  const Part whole = whole_blocks(slab, offset, bytes);
  Counts& counts = counts_[slab];
  for (std::uint64_t block = div_ceil(whole.begin, block_bytes_); block * block_bytes_ < whole.end; ++block) {
    const BlockState before = std::exchange(at(slab)[block], state);
    if (before == BlockState::zeros) --counts.zeros;
    if (before == BlockState::lost) --counts.lost;
    if (state == BlockState::zeros) ++counts.zeros;
    if (state == BlockState::lost) ++counts.lost;
  }
  assert_that(std::uint64_t{counts.zeros} + counts.lost <= blocks_of(slab), "a slab counts no more blocks than it has");
}

void BlockStates::lose(std::uint64_t slab) {
  const MutexLock lock(mutex_);
  for (std::uint64_t block = 0; block < blocks_of(slab); ++block) {
    const std::uint64_t begin = block * block_bytes_;
    const std::uint64_t bytes = std::min(block_bytes_, bytes_of(slab) - begin);
    if (at(slab)[block] == BlockState::stored) set(slab, begin, bytes, BlockState::lost);
  }
}

bool BlockStates::clear(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  set(slab, offset, bytes, BlockState::zeros);
  return counts_[slab].zeros == blocks_of(slab);
}

void BlockStates::store(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (!counts_[slab].none()) set(slab, offset, bytes, BlockState::stored);
}

void BlockStates::reset(std::uint64_t slab) { store(slab, 0, bytes_of(slab)); }

// ---- Looks

BlockStates::Part BlockStates::whole_blocks(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t end = offset + bytes;
  assert_that(end <= bytes_of(slab), "the bytes lie within the slab");
  const std::uint64_t first = std::min(end, div_ceil(offset, block_bytes_) * block_bytes_);
  return {first, end == bytes_of(slab) ? end : std::max(first, end / block_bytes_ * block_bytes_)};
}

BlockStates::Run BlockStates::run_at(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes) const {
  assert_that(bytes != 0 && offset + bytes <= bytes_of(slab), "a run has bytes, and lies within the slab");
  const MutexLock lock(mutex_);
  if (counts_[slab].none()) return {bytes, BlockState::stored};
  const BlockState* const blocks = at(slab);
  const std::uint64_t first = offset / block_bytes_;
  std::uint64_t next = first + 1;
  while (next * block_bytes_ < offset + bytes && blocks[next] == blocks[first]) ++next;
  return {std::min(bytes, next * block_bytes_ - offset), blocks[first]};
}

std::optional<BlockStates::Block> BlockStates::cut_by(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes,
                                                      BlockState state) const {
  const std::uint64_t end = offset + bytes;
  const std::uint64_t first = offset / block_bytes_;
  const std::uint64_t last = end / block_bytes_;
  const bool begins_within = offset % block_bytes_ != 0;
  const bool ends_within = end % block_bytes_ != 0 && end != bytes_of(slab);
  if (!begins_within && !ends_within) return std::nullopt;  // as all pages
  const MutexLock lock(mutex_);
  const auto block_at = [&](std::uint64_t block) {
    const std::uint64_t begin = block * block_bytes_;
    return Block{begin, std::min(block_bytes_, bytes_of(slab) - begin)};
  };
  if (begins_within && at(slab)[first] == state) return block_at(first);
  if (ends_within && at(slab)[last] == state) return block_at(last);
  return std::nullopt;
}

bool BlockStates::all_zeros(std::uint64_t slab) const {
  const MutexLock lock(mutex_);
  return counts_[slab].zeros == blocks_of(slab);
}

}  // namespace farside::far
