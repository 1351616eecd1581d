// arena.h — the addresses at which far memory is seen. One mapping, however many objects lie in it.
#pragma once

#include <cstddef>
#include <span>

#include "farside/base/fd.h"

#include "far/pager/page_table.h"

namespace farside::far {

class Arena {
 public:
  explicit Arena(PageNumber pages);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::byte* at(PageNumber page) const { return base_ + std::size_t{page} * kPageBytes; }
  [[nodiscard]] bool contains(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= base_ && byte < base_ + bytes_;
  }
  /// Of an address within it.
  [[nodiscard]] PageNumber page_of(const void* address) const {
    return static_cast<PageNumber>(static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_) /
                                   kPageBytes);
  }

  /// Takes the memory of these pages away; in ascending order. In one call where the kernel can (Linux 6.13).
  void drop(std::span<const PageNumber> pages);

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_;
  int process_;
  Fd self_;  ///< this process, while it can be told of many ranges at once
};

/// Calls `then(first, count)` for each run of neighbours in an ascending list.
template <class Then>
void for_each_run(std::span<const PageNumber> pages, Then&& then) {
  for (std::size_t i = 0; i < pages.size();) {
    const std::size_t begin = i++;
    while (i < pages.size() && pages[i] == pages[i - 1] + 1) ++i;
    then(begin, i - begin);
  }
}

}  // namespace farside::far
