// paged_memory.h — the memory whose pages come and go: of this process (arena.h), or of another one.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/assert.h"
#include "far/pager/page_table.h"

namespace farside::far {

/// Thread safety: every call, from any thread and from fault handlers.
class PagedMemory {
 public:
  virtual ~PagedMemory() = default;
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;

  [[nodiscard]] virtual PageNumber pages() const = 0;
  /// Returns its address in the process whose memory it is. Pages that follow each other in an address range do so in
  /// number.
  [[nodiscard]] virtual std::byte* at(PageNumber page) const = 0;
  /// The bytes of pages that are here, in ascending order; or false, when they cannot be had.
  [[nodiscard]] virtual bool copy_out(std::span<const PageNumber> pages, std::byte* to) = 0;
  /// Takes the memory of these pages away; in ascending order.
  virtual void drop(std::span<const PageNumber> pages) = 0;
  /// Ends the process that uses it, since it cannot go on. Returns if that is another process than this.
  virtual void fail(std::string_view tried, std::string_view why) = 0;
  /// No process uses it any more: nothing is worth waiting for.
  [[nodiscard]] virtual bool is_gone() const { return false; }

 protected:
  PagedMemory() = default;
};

/// Calls `then(first, count)` for each run of neighbours in an ascending list.
template <class Then>
void for_each_run(std::span<const PageNumber> pages, Then&& then) {
  for (std::size_t i = 0; i < pages.size();) {
    const std::size_t begin = i++;
    assert_that(begin == 0 || pages[begin - 1] < pages[begin], "pages are listed in ascending order");
    while (i < pages.size() && pages[i] == pages[i - 1] + 1) ++i;
    then(begin, i - begin);
  }
}

}  // namespace farside::far
