#include "gas/read_cache.h"

#include <utility>

#include "base/assert.h"

namespace farside::gas {

std::span<const std::byte> ReadCache::find_copy(PageId page) {
  const auto found = by_page_.find(page);
  if (found == by_page_.end()) return {};
  copies_.splice(copies_.begin(), copies_, found->second);
  return copies_.front().bytes;
}

std::span<const std::byte> ReadCache::add(PageId page, std::vector<std::byte> bytes) {
  assert_that(is_on() && !by_page_.contains(page), "a copy is added of a page that has none");
  std::list<Copy> added;
  added.push_front({page, std::move(bytes)});
  by_page_.insert_or_assign(page, added.begin());  // the last that may throw
  if (copies_.size() >= most_pages_) drop_copy(copies_.back().page);
  copies_.splice(copies_.begin(), added);
  assert_that(copies_.size() == by_page_.size() && copies_.size() <= most_pages_, "as many copies are kept as fit");
  return copies_.front().bytes;
}

void ReadCache::drop_copy(PageId page) {
  const auto found = by_page_.find(page);
  if (found == by_page_.end()) return;
  copies_.erase(found->second);
  by_page_.erase(found);
}

void ReadCache::clear() {
  copies_.clear();
  by_page_.clear();
}

}  // namespace farside::gas
