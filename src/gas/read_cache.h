// read_cache.h — copies of remote pages, as many as fit; the least recently used goes first.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "farside/gas/page.h"

namespace farside::gas {

class ReadCache {
 public:
  ReadCache(std::uint64_t bytes, std::uint64_t page_bytes) : most_pages_(bytes / page_bytes) {}

  [[nodiscard]] bool is_on() const noexcept { return most_pages_ != 0; }
  /// The page's bytes, if they are here.
  [[nodiscard]] std::span<const std::byte> find(PageId page) {
    return is_on() ? find_copy(page) : std::span<const std::byte>{};
  }
  /// The same, of a page that is not here; when it throws, nothing has changed.
  std::span<const std::byte> add(PageId page, std::vector<std::byte> bytes);
  void drop(PageId page) {
    if (is_on()) drop_copy(page);
  }
  void clear();

 private:
  [[nodiscard]] std::span<const std::byte> find_copy(PageId page);
  void drop_copy(PageId page);

  struct Copy {
    PageId page;
    std::vector<std::byte> bytes;
  };

  std::uint64_t most_pages_;
  std::list<Copy> copies_;  // the last used first
  std::unordered_map<PageId, std::list<Copy>::iterator> by_page_;
};

}  // namespace farside::gas
