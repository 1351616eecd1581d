#include "kv/server/heap.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "farside/base/rounding.h"

#include "base/assert.h"

namespace farside::kv {

namespace {

// Classes: each multiple of 16 up to 512, then eight to each doubling, so that at most an eighth is lost.
constexpr std::uint64_t kGrain = 16;
constexpr std::uint64_t kFineBytes = 512;
constexpr std::uint64_t kFineClasses = kFineBytes / kGrain;
constexpr std::uint64_t kToDouble = 8;
constexpr std::uint64_t kReservedPart = 64;

constexpr std::uint64_t class_of(std::uint64_t bytes) {
  if (bytes <= kFineBytes) return div_ceil(std::max(bytes, kGrain), kGrain) - 1;
  const auto doublings = static_cast<std::uint64_t>(std::bit_width(bytes - 1) - std::bit_width(kFineBytes));
  const std::uint64_t step = (kFineBytes << doublings) / kToDouble;
  return kFineClasses + doublings * kToDouble + div_ceil(bytes - (kFineBytes << doublings), step) - 1;
}

constexpr std::uint64_t block_bytes(std::uint64_t size_class) {
  if (size_class < kFineClasses) return (size_class + 1) * kGrain;
  const std::uint64_t doublings = (size_class - kFineClasses) / kToDouble;
  const std::uint64_t step = (kFineBytes << doublings) / kToDouble;
  return (kFineBytes << doublings) + ((size_class - kFineClasses) % kToDouble + 1) * step;
}

constexpr std::uint64_t kClasses = class_of(Heap::kMaxSmallBytes) + 1;
static_assert(block_bytes(kClasses - 1) == Heap::kMaxSmallBytes && kClasses <= Heap::kPageBytes);
static_assert(class_of(512) == 31 && block_bytes(class_of(513)) == 576 && block_bytes(class_of(1025)) == 1152);

constexpr std::uint64_t blocks_in_chunk(std::uint64_t size_class) {
  return Heap::kChunkPages * Heap::kPageBytes / block_bytes(size_class);
}

}  // namespace

Heap::Heap(std::uint64_t begin, std::uint64_t end)
    : begin_(round_up(begin, kPageBytes)),
      pages_total_(end < begin_ ? 0 : (end - begin_) / kPageBytes),
      pages_reserved_(pages_total_ / kReservedPart),
      chunks_with_room_(kClasses),
      chunk_of_page_(pages_total_) {
  if (pages_total_ != 0) give_back_pages(0, pages_total_);
}

std::optional<std::uint64_t> Heap::take(std::uint64_t bytes, For purpose) {
  if (bytes <= kMaxSmallBytes) {
    if (const auto small = take_small(class_of(bytes), purpose)) return small;
  }
  const std::uint64_t count = div_ceil(bytes, kPageBytes);
  const auto first = take_pages(count, purpose);
  if (!first) {
    const bool may_be_larger = purpose == For::making_room && bytes <= kMaxSmallBytes;
    return may_be_larger ? take_larger(class_of(bytes)) : std::nullopt;
  }
  bytes_used_ += count * kPageBytes;
  return begin_ + *first * kPageBytes;
}

bool Heap::take_at(std::uint64_t offset, std::uint64_t bytes, std::uint64_t chunk) {
  if (offset < begin_ || (offset - begin_) / kPageBytes >= pages_total_) return false;
  if (chunk != 0) {
    if (bytes > kMaxSmallBytes || chunk < begin_ || chunk > offset + kPageBytes) return false;
    const std::uint64_t first_page = (chunk - begin_) / kPageBytes;
    const std::uint64_t size_class = (chunk - begin_) % kPageBytes;
    const bool can_be = size_class >= class_of(bytes) && size_class < kClasses;
    return can_be && begin_ + first_page * kPageBytes <= offset && take_small_at(offset, size_class, first_page);
  }
  const std::uint64_t count = div_ceil(bytes, kPageBytes);
  if ((offset - begin_) % kPageBytes != 0 || !take_pages_at((offset - begin_) / kPageBytes, count)) return false;
  bytes_used_ += count * kPageBytes;
  return true;
}

std::uint64_t Heap::chunk_of(std::uint64_t offset) const {
  const std::uint64_t page = (offset - begin_) / kPageBytes;
  assert_that(offset >= begin_ && page < pages_total_, "a block lies in the heap");
  const std::uint32_t chunk = chunk_of_page_[page];
  return chunk == 0 ? 0 : begin_ + chunks_[chunk - 1].first_page * kPageBytes + chunks_[chunk - 1].size_class;
}

void Heap::give_back(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t page = (offset - begin_) / kPageBytes;
  assert_that(offset >= begin_ && page < pages_total_, "a block lies in the heap");
  if (const std::uint32_t chunk = chunk_of_page_[page]; chunk != 0) return give_back_small(chunk - 1, offset);
  const std::uint64_t count = div_ceil(bytes, kPageBytes);
  assert_that(bytes_used_ >= count * kPageBytes, "what is given back was taken");
  bytes_used_ -= count * kPageBytes;
  give_back_pages(page, count);
}

std::optional<std::uint64_t> Heap::take_small(std::uint64_t size_class, For purpose) {
  std::vector<std::uint32_t>& with_room = chunks_with_room_[size_class];
  if (with_room.empty() && !make_chunk(size_class, purpose)) return std::nullopt;
  return take_block_of(size_class);
}

// Erasures in any order leave such blocks everywhere long before they leave whole pages.
std::optional<std::uint64_t> Heap::take_larger(std::uint64_t size_class) {
  const auto found = std::find_if(chunks_with_room_.begin() + static_cast<std::ptrdiff_t>(size_class),
                                  chunks_with_room_.end(), [](const auto& with_room) { return !with_room.empty(); });
  if (found == chunks_with_room_.end()) return std::nullopt;
  return take_block_of(static_cast<std::uint64_t>(found - chunks_with_room_.begin()));
}

std::uint64_t Heap::take_block_of(std::uint64_t size_class) {
  Chunk& chunk = chunks_[chunks_with_room_[size_class].back()];
  const auto word = std::ranges::find_if(chunk.taken, [](std::uint64_t bits) { return ~bits != 0; });
  assert_that(word != chunk.taken.end(), "a chunk that is listed has room");
  const auto bit = static_cast<std::uint64_t>(std::countr_one(*word));
  const std::uint64_t block = static_cast<std::uint64_t>(word - chunk.taken.begin()) * 64 + bit;
  take_block(chunk, block);
  return begin_ + chunk.first_page * kPageBytes + block * block_bytes(size_class);
}

bool Heap::take_small_at(std::uint64_t offset, std::uint64_t size_class, std::uint64_t first_page) {
  const std::uint64_t within = offset - begin_ - first_page * kPageBytes;
  const std::uint64_t block = within / block_bytes(size_class);
  if (within % block_bytes(size_class) != 0 || block >= blocks_in_chunk(size_class)) return false;
  if (chunk_of_page_[first_page] == 0) {
    if (!take_pages_at(first_page, kChunkPages)) return false;
    begin_chunk(first_page, size_class);
  }
  Chunk& chunk = chunks_[chunk_of_page_[first_page] - 1];
  if (chunk.first_page != first_page || chunk.size_class != size_class) return false;
  if ((chunk.taken[block / 64] >> block % 64 & 1) != 0) return false;
  take_block(chunk, block);
  return true;
}

void Heap::take_block(Chunk& chunk, std::uint64_t block) {
  chunk.taken[block / 64] |= std::uint64_t{1} << block % 64;
  if (++chunk.blocks_taken == blocks_in_chunk(chunk.size_class)) unlist(chunk);
  bytes_used_ += block_bytes(chunk.size_class);
}

void Heap::give_back_small(std::uint64_t chunk_number, std::uint64_t offset) {
  Chunk& chunk = chunks_[chunk_number];
  const std::uint64_t bytes = block_bytes(chunk.size_class);
  const std::uint64_t within = offset - begin_ - chunk.first_page * kPageBytes;
  const std::uint64_t block = within / bytes;
  assert_that(within % bytes == 0 && block < blocks_in_chunk(chunk.size_class), "a block of a chunk is whole");
  const std::uint64_t bit = std::uint64_t{1} << block % 64;
  assert_that((chunk.taken[block / 64] & bit) != 0, "a block that is given back is taken");
  chunk.taken[block / 64] &= ~bit;
  bytes_used_ -= bytes;
  if (chunk.blocks_taken-- == blocks_in_chunk(chunk.size_class)) list(chunk_number);
  if (chunk.blocks_taken == 0) end_chunk(chunk_number);
}

bool Heap::make_chunk(std::uint64_t size_class, For purpose) {
  const auto first = take_pages(kChunkPages, purpose);
  if (first) begin_chunk(*first, size_class);
  return first.has_value();
}

void Heap::begin_chunk(std::uint64_t first_page, std::uint64_t size_class) {
  if (unused_chunks_.empty()) {
    unused_chunks_.push_back(static_cast<std::uint32_t>(chunks_.size()));
    chunks_.emplace_back();
  }
  const std::uint32_t number = unused_chunks_.back();
  unused_chunks_.pop_back();
  const std::uint64_t blocks = blocks_in_chunk(size_class);
  std::vector<std::uint64_t> taken(div_ceil(blocks, 64));
  if (blocks % 64 != 0) taken.back() = ~std::uint64_t{0} << blocks % 64;  // those that there are not
  chunks_[number] = {first_page, static_cast<std::uint32_t>(size_class), 0, 0, std::move(taken)};
  assert_that(chunk_of_page_[first_page] == 0 && chunk_of_page_[first_page + kChunkPages - 1] == 0,
              "the pages of a chunk are no other chunk's");
  std::fill_n(chunk_of_page_.begin() + static_cast<std::ptrdiff_t>(first_page), kChunkPages, number + 1);
  list(number);
}

void Heap::end_chunk(std::uint64_t chunk_number) {
  Chunk& chunk = chunks_[chunk_number];
  unlist(chunk);
  std::fill_n(chunk_of_page_.begin() + static_cast<std::ptrdiff_t>(chunk.first_page), kChunkPages, 0);
  give_back_pages(chunk.first_page, kChunkPages);
  chunk.taken = {};
  unused_chunks_.push_back(static_cast<std::uint32_t>(chunk_number));
}

void Heap::list(std::uint64_t chunk_number) {
  Chunk& chunk = chunks_[chunk_number];
  chunk.place = chunks_with_room_[chunk.size_class].size();
  chunks_with_room_[chunk.size_class].push_back(static_cast<std::uint32_t>(chunk_number));
}

void Heap::unlist(const Chunk& chunk) {
  std::vector<std::uint32_t>& with_room = chunks_with_room_[chunk.size_class];
  assert_that(chunk.place < with_room.size() && &chunks_[with_room[chunk.place]] == &chunk,
              "a chunk that has room is listed in its place");
  with_room[chunk.place] = with_room.back();
  chunks_[with_room[chunk.place]].place = chunk.place;
  with_room.pop_back();
}

std::optional<std::uint64_t> Heap::take_pages(std::uint64_t count, For purpose) {
  const std::uint64_t reserved = purpose == For::keeping ? pages_reserved_ : 0;
  if (pages_free_ < reserved || count > pages_free_ - reserved) return std::nullopt;
  const auto best = free_by_size_.lower_bound({count, 0});
  if (best == free_by_size_.end()) return std::nullopt;
  const auto [found, first] = *best;
  erase_free(first, found);
  if (found > count) insert_free(first + count, found - count);
  pages_free_ -= count;
  return first;
}

bool Heap::take_pages_at(std::uint64_t first, std::uint64_t count) {
  auto piece = free_by_place_.upper_bound(first);
  if (piece == free_by_place_.begin()) return false;
  const auto [begin, pages] = *--piece;
  const std::uint64_t before = first - begin;
  if (before >= pages || count > pages - before) return false;
  erase_free(begin, pages);
  if (before != 0) insert_free(begin, before);
  if (const std::uint64_t after = pages - before - count; after != 0) insert_free(first + count, after);
  pages_free_ -= count;
  return true;
}

void Heap::give_back_pages(std::uint64_t first, std::uint64_t count) {
  pages_free_ += count;
  const auto after = free_by_place_.lower_bound(first);
  std::uint64_t begin = first;
  std::uint64_t end = first + count;
  assert_that(after == free_by_place_.end() || end <= after->first, "pages that are given back are taken");
  const auto joined_after = after != free_by_place_.end() && after->first == end ? after->second : 0;
  if (after != free_by_place_.begin()) {
    const auto [before, pages] = *std::prev(after);
    assert_that(before + pages <= first, "pages that are given back are taken");
    if (before + pages == first) {
      begin = before;
      erase_free(before, pages);
    }
  }
  if (joined_after != 0) {
    erase_free(end, joined_after);
    end += joined_after;
  }
  insert_free(begin, end - begin);
}

void Heap::insert_free(std::uint64_t first, std::uint64_t count) {
  free_by_place_.emplace(first, count);
  free_by_size_.emplace(count, first);
}

void Heap::erase_free(std::uint64_t first, std::uint64_t count) {
  free_by_place_.erase(first);
  free_by_size_.erase({count, first});
}

}  // namespace farside::kv
