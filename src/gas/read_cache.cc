#include "gas/read_cache.h"

namespace farside {

std::span<std::byte> ReadCache::find_copy(PageId page) {
  const auto found = by_page_.find(page);
  if (found == by_page_.end()) return {};
  copies_.splice(copies_.begin(), copies_, found->second);
  return copies_.front().bytes;
}

std::span<std::byte> ReadCache::add(PageId page) {
  if (copies_.size() < most_pages_) {
    copies_.push_front({page, std::vector<std::byte>(page_bytes_)});
  } else {
    by_page_.erase(copies_.back().page);
    copies_.splice(copies_.begin(), copies_, std::prev(copies_.end()));
    copies_.front().page = page;
  }
  by_page_[page] = copies_.begin();
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

}  // namespace farside
