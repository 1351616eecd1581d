#include "nbd/written_blocks.h"

#include <algorithm>

#include "farside/base/rounding.h"

namespace farside::nbd {

namespace {

constexpr std::uint64_t kBits = 64;

std::uint64_t bit_of(std::uint64_t block) { return std::uint64_t{1} << (block % kBits); }

}  // namespace

void WrittenBlocks::set(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::uint64_t last = (offset + bytes - 1) / kBlockBytes;
  for (std::uint64_t block = offset / kBlockBytes; block <= last; ++block) words_[block / kBits] |= bit_of(block);
}

void WrittenBlocks::clear(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t end = offset + bytes == bytes_ ? div_ceil(bytes_, kBlockBytes) : (offset + bytes) / kBlockBytes;
  for (std::uint64_t block = div_ceil(offset, kBlockBytes); block < end; ++block) {
    words_[block / kBits] &= ~bit_of(block);
  }
}

WrittenBlocks::Run WrittenBlocks::run_at(std::uint64_t offset, std::uint64_t end) const {
  std::uint64_t block = offset / kBlockBytes;
  const bool written = is_set(block);
  do ++block;
  while (block * kBlockBytes < end && is_set(block) == written);
  return {std::min(block * kBlockBytes, end) - offset, written};
}

bool WrittenBlocks::is_set(std::uint64_t block) const { return (words_[block / kBits] & bit_of(block)) != 0; }

}  // namespace farside::nbd
