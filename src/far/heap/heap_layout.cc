#include "far/heap/heap_layout.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "farside/base/rounding.h"

#include "base/assert.h"

namespace farside::far {

namespace {

constexpr std::size_t kLeastPiece = 16;
constexpr std::size_t kMaxSmallBytes = 16384;
constexpr std::size_t kPiecesOfRun = 16;  // at least

// Four sizes to each power of two: at most a fifth is lost.
std::size_t size_of_piece(std::size_t bytes) {
  if (bytes <= kLeastPiece * 4) return round_up(std::max(bytes, kLeastPiece), kLeastPiece);
  return round_up(bytes, std::bit_floor(bytes - 1) / 4);
}

}  // namespace

HeapLayout::HeapLayout(std::size_t bytes) {
  if (bytes >= kGranuleBytes) free_.emplace(0, bytes / kGranuleBytes);
}

std::optional<std::size_t> HeapLayout::take(std::size_t bytes, std::size_t alignment) {
  if (bytes <= kMaxSmallBytes && alignment <= kMaxSmallBytes) {
    // Pieces of a power of two lie at multiples of themselves.
    const std::size_t piece =
        alignment <= kLeastPiece ? size_of_piece(bytes) : std::bit_ceil(std::max({bytes, alignment, kLeastPiece}));
    return take_small(piece);
  }
  const std::size_t granules = bytes / kGranuleBytes + (bytes % kGranuleBytes != 0 || bytes == 0 ? 1 : 0);
  const auto first = take_run(granules, std::max<std::size_t>(alignment / kGranuleBytes, 1));
  if (!first) return std::nullopt;
  runs_.emplace(*first, Run{granules, 0, {}, 1});
  return *first * kGranuleBytes;
}

std::optional<std::size_t> HeapLayout::take_small(std::size_t piece_bytes) {
  std::set<std::size_t>& with_room = partly_[piece_bytes];
  if (with_room.empty()) {
    const std::size_t granules = div_ceil(piece_bytes * kPiecesOfRun, kGranuleBytes);
    const auto first = take_run(granules, 1);
    if (!first) return std::nullopt;
    runs_.emplace(*first, Run{granules, piece_bytes, std::vector<bool>(granules * kGranuleBytes / piece_bytes), 0});
    with_room.insert(*first);
  }
  const std::size_t first = *with_room.begin();
  Run& run = runs_.at(first);
  assert_that(run.used < run.is_used.size(), "a run that is listed for its room has some");
  const auto place = std::ranges::find(run.is_used, false) - run.is_used.begin();
  run.is_used[static_cast<std::size_t>(place)] = true;
  if (++run.used == run.is_used.size()) with_room.erase(first);
  return first * kGranuleBytes + static_cast<std::size_t>(place) * piece_bytes;
}

std::optional<std::size_t> HeapLayout::take_run(std::size_t granules, std::size_t alignment) {
  for (const auto& [begin, count] : free_) {
    const std::size_t first = round_up(begin, alignment);
    if (first - begin > count || count - (first - begin) < granules) continue;
    const std::size_t free_begin = begin;
    const std::size_t free_count = count;
    free_.erase(free_begin);
    if (first != free_begin) free_.emplace(free_begin, first - free_begin);
    if (first + granules != free_begin + free_count) {
      free_.emplace(first + granules, free_begin + free_count - first - granules);
    }
    used_granules_ += granules;
    return first;
  }
  return std::nullopt;
}

void HeapLayout::give_run(std::size_t first, std::size_t granules) {
  assert_that(used_granules_ >= granules, "what is given back was in use");
  used_granules_ -= granules;
  auto next = free_.lower_bound(first);
  assert_that(next == free_.end() || next->first >= first + granules, "no granule is both in use and free");
  if (next != free_.end() && next->first == first + granules) {
    granules += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    assert_that(before->first + before->second <= first, "no granule is both in use and free");
    if (before->first + before->second == first) {
      before->second += granules;
      return;
    }
  }
  free_.emplace(first, granules);
}

HeapLayout::Runs::const_iterator HeapLayout::run_of(std::size_t begin) const {
  auto after = runs_.upper_bound(begin / kGranuleBytes);
  if (after == runs_.begin()) return runs_.end();
  --after;
  return begin / kGranuleBytes < after->first + after->second.granules ? after : runs_.end();
}

std::optional<HeapLayout::Piece> HeapLayout::find(std::size_t begin) const {
  const auto found = run_of(begin);
  if (found == runs_.end()) return std::nullopt;
  const auto& [first, run] = *found;
  const std::size_t offset = begin - first * kGranuleBytes;
  if (run.piece_bytes == 0) {
    return offset == 0 ? std::optional(Piece{begin, run.granules * kGranuleBytes}) : std::nullopt;
  }
  const std::size_t place = offset / run.piece_bytes;
  if (offset % run.piece_bytes != 0 || place >= run.is_used.size() || !run.is_used[place]) return std::nullopt;
  return Piece{begin, run.piece_bytes};
}

std::optional<HeapLayout::Released> HeapLayout::give(std::size_t begin) {
  if (!find(begin)) return std::nullopt;
  const auto found = runs_.find(run_of(begin)->first);
  auto& [first, run] = *found;
  if (run.piece_bytes != 0) {
    run.is_used[(begin - first * kGranuleBytes) / run.piece_bytes] = false;
    partly_[run.piece_bytes].insert(first);
    if (--run.used != 0) return Released{};
    partly_[run.piece_bytes].erase(first);
  }
  const Released released{first * kGranuleBytes, run.granules * kGranuleBytes};
  runs_.erase(found);
  return released;
}

void HeapLayout::reuse(const Released& released) {
  give_run(released.begin / kGranuleBytes, released.bytes / kGranuleBytes);
}

}  // namespace farside::far
