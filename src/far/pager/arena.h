// arena.h — the addresses at which far memory is seen. One mapping, however many objects lie in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "farside/base/fd.h"

#include "far/pager/paged_memory.h"

namespace farside::far {

class Arena final : public PagedMemory {
 public:
  explicit Arena(PageNumber pages);
  ~Arena() override;

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] PageNumber pages() const override { return static_cast<PageNumber>(bytes_ / kPageBytes); }
  [[nodiscard]] std::byte* at(PageNumber page) const override { return base_ + std::size_t{page} * kPageBytes; }
  [[nodiscard]] bool contains(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= base_ && byte < base_ + bytes_;
  }
  /// Requires: `address` lies within the arena.
  [[nodiscard]] PageNumber page_of(const void* address) const {
    return static_cast<PageNumber>(static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_) /
                                   kPageBytes);
  }

  [[nodiscard]] bool copy_out(std::span<const PageNumber> pages, std::byte* to) override;
  /// In one call where the kernel can (Linux 6.13).
  void drop(std::span<const PageNumber> pages) override;
  [[noreturn]] void fail(std::string_view tried, std::string_view why) override;

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_;
  int process_;
  Fd self_;                              ///< this process,
  std::atomic<bool> takes_lists_{true};  ///< which can be told of many ranges at once
};

}  // namespace farside::far
