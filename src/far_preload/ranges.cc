#include "ranges.h"

#include <algorithm>
#include <cstring>

namespace farside::far_preload {

namespace {

constexpr std::uint64_t border(std::uint64_t begin, Use use) { return begin | static_cast<std::uint64_t>(use); }
constexpr std::uint64_t begin_of(std::uint64_t border) { return border & ~(kPageBytes - 1); }
constexpr Use use_of(std::uint64_t border) { return static_cast<Use>(border & (kPageBytes - 1)); }

}  // namespace

Ranges::Ranges(std::span<std::uint64_t> table, std::uint64_t begin, std::uint64_t end)
    : table_(table), count_(1), begin_(begin), end_(end) {
  table_[0] = border(begin, Use::free);
}

std::size_t Ranges::index_of(std::uint64_t address) const {
  const auto borders = table_.first(count_);
  const auto after = std::ranges::upper_bound(borders, address, {}, begin_of);
  return static_cast<std::size_t>(after - borders.begin()) - 1;
}

Ranges::Part Ranges::part(std::size_t index) const {
  return {.begin = begin_of(table_[index]),
          .end = index + 1 < count_ ? begin_of(table_[index + 1]) : end_,
          .use = use_of(table_[index])};
}

std::optional<std::uint64_t> Ranges::find_free(std::uint64_t bytes, std::uint64_t alignment) const {
  for (std::size_t index = 0; index < count_; ++index) {
    if (use_of(table_[index]) != Use::free) continue;
    const Part found = part(index);
    const std::uint64_t begin = (found.begin + alignment - 1) & ~(alignment - 1);
    if (begin <= found.end && bytes <= found.end - begin) return begin;
  }
  return std::nullopt;
}

bool Ranges::set(std::uint64_t begin, std::uint64_t end, Use use) {
  std::size_t first = index_of(begin);   // of the borders that change ...
  std::size_t last = index_of(end - 1);  // ... up to this one
  const Part head = part(first);
  const Part tail = part(last);

  std::uint64_t fresh[2];
  std::size_t fresh_count = 0;
  if (head.begin < begin) ++first;  // its border stays
  if (first == 0 || use_of(table_[first - 1]) != use) fresh[fresh_count++] = border(begin, use);
  if (end < tail.end) {
    if (tail.use != use) fresh[fresh_count++] = border(end, tail.use);
  } else if (last + 1 < count_ && use_of(table_[last + 1]) == use) {
    ++last;  // what follows is joined to it
  }

  const std::size_t gone = last + 1 - first;
  const std::size_t count = count_ - gone + fresh_count;
  if (count > table_.size()) return false;
  std::memmove(table_.data() + first + fresh_count, table_.data() + first + gone,
               (count_ - first - gone) * sizeof(std::uint64_t));
  std::copy_n(fresh, fresh_count, table_.data() + first);
  count_ = count;
  return true;
}

}  // namespace farside::far_preload
