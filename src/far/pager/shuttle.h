// shuttle.h — how the pager's pages get to where they are kept, and back. The pager knows no more of the space.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "farside/far/space.h"

#include "far/pager/page_table.h"

namespace farside::far {

/// Thread safety: one thread at a time. Page i of a list lies at the buffer's i-th place.
class Shuttle {
 public:
  static constexpr std::size_t kPages = 64;

  virtual ~Shuttle() = default;
  Shuttle(const Shuttle&) = delete;
  Shuttle& operator=(const Shuttle&) = delete;

  /// kPages pages, which stay where they are: registered with the network once.
  [[nodiscard]] virtual std::byte* buffer() = 0;
  /// At most kPages. What was never stored, or erased since, is zeros.
  [[nodiscard]] virtual Status fetch(std::span<const PageNumber> pages) = 0;
  /// Done: every fetch that begins later, by any shuttle, finds it.
  [[nodiscard]] virtual Status store(std::span<const PageNumber> pages) = 0;
  [[nodiscard]] virtual Status erase(PageNumber first, PageNumber count) = 0;

 protected:
  Shuttle() = default;
};

class ShuttleSource {
 public:
  virtual ~ShuttleSource() = default;
  ShuttleSource(const ShuttleSource&) = delete;
  ShuttleSource& operator=(const ShuttleSource&) = delete;

  [[nodiscard]] virtual PageNumber pages() const = 0;
  /// Throws Error. The shuttles go before their source.
  [[nodiscard]] virtual std::unique_ptr<Shuttle> open() = 0;

 protected:
  ShuttleSource() = default;
};

}  // namespace farside::far
