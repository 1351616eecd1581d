// page_io.h — how the pager's pages get to where they are kept, and back. The pager knows no more of the space.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "farside/far/space.h"

#include "far/pager/page_table.h"

namespace farside::far {

/// Thread safety: one thread at a time. Page i of a list lies at the buffer's i-th place.
class PageIo {
 public:
  static constexpr std::size_t kPages = 64;

  virtual ~PageIo() = default;
  PageIo(const PageIo&) = delete;
  PageIo& operator=(const PageIo&) = delete;

  /// kPages pages, which stay where they are: registered with the network once.
  [[nodiscard]] virtual std::byte* buffer() = 0;
  /// At most kPages. What was never stored, or erased since, is zeros.
  [[nodiscard]] virtual Status fetch(std::span<const PageNumber> pages) = 0;
  /// Done: every fetch that begins later, by any page I/O object, finds it.
  [[nodiscard]] virtual Status store(std::span<const PageNumber> pages) = 0;
  [[nodiscard]] virtual Status erase(PageNumber first, PageNumber count) = 0;

 protected:
  PageIo() = default;
};

class PageIoSource {
 public:
  virtual ~PageIoSource() = default;
  PageIoSource(const PageIoSource&) = delete;
  PageIoSource& operator=(const PageIoSource&) = delete;

  [[nodiscard]] virtual PageNumber pages() const = 0;
  /// Throws Error. The page I/O objects go before their source.
  [[nodiscard]] virtual std::unique_ptr<PageIo> open() = 0;

 protected:
  PageIoSource() = default;
};

}  // namespace farside::far
