// ranges.h — which addresses of the arena are whose.
//
// A sorted table of borders in memory that the caller gives: nothing is allocated here. Between two borders all pages
// are in the same use, and neighbours differ in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace farside::far_preload {

inline constexpr std::uint64_t kPageBytes = 4096;
/// 0 where that is too large for an address.
constexpr std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPageBytes - 1) & ~(kPageBytes - 1); }

enum class Use : std::uint8_t {
  free,     ///< zeros, for the next caller
  used,     ///< the program's
  freed,    ///< was the program's; still has its bytes
  foreign,  ///< something else was mapped over it: never ours again
};

/// Not thread safe. Addresses are whole pages, and within.
class Ranges {
 public:
  struct Part {
    std::uint64_t begin;
    std::uint64_t end;
    Use use;
  };

  Ranges() = default;
  /// All of it free.
  Ranges(std::span<std::uint64_t> table, std::uint64_t begin, std::uint64_t end);

  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }

  /// Finds so many free bytes: the lowest address that is a multiple of `alignment`, a power of two.
  [[nodiscard]] std::optional<std::uint64_t> find_free(std::uint64_t bytes, std::uint64_t alignment) const;

  /// The part that has `address`.
  [[nodiscard]] Part part_at(std::uint64_t address) const { return part(index_of(address)); }

  /// False, and nothing changed, when the table is full.
  [[nodiscard]] bool set(std::uint64_t begin, std::uint64_t end, Use use);

  /// Calls `visit(part)` for each part of [begin, end) as it is now, cut to it. `visit` may change the use of what it
  /// is given.
  template <class Visit>
  void for_each(std::uint64_t begin, std::uint64_t end, Visit visit) const {
    while (begin < end) {
      Part next = part_at(begin);
      next.begin = begin;
      if (next.end > end) next.end = end;
      visit(next);
      begin = next.end;
    }
  }

 private:
  [[nodiscard]] std::size_t index_of(std::uint64_t address) const;
  [[nodiscard]] Part part(std::size_t index) const;

  // The begin of each part, and in the bits within a page its use. The part ends where the next begins.
  std::span<std::uint64_t> table_;
  std::size_t count_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace farside::far_preload
