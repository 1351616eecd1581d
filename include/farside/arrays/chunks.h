// chunks.h — a box of elements in pieces of about kChunk: what a thread does at once, and what a reduction combines.
//
// They depend on the shape alone, so that results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "farside/arrays/layout.h"

namespace farside::arrays {

class Chunks {
 public:
  static constexpr std::int64_t kChunk = 8192;  ///< elements
  /// Chunks that are worth a thread.
  static constexpr std::uint64_t kGrain = 4;

  explicit Chunks(const Box& box)
      : box_(box),
        empty_(box.empty()),
        cuts_(empty_ ? 1 : (box.extent(2) + kChunk - 1) / kChunk),
        rows_(empty_ ? 1 : std::max<std::int64_t>(1, kChunk / box.extent(2))) {}

  [[nodiscard]] std::uint64_t count() const {
    return empty_ ? 0 : static_cast<std::uint64_t>((all_rows() + rows_ - 1) / rows_ * cuts_);
  }
  /// `visit(i, j, begin, end)` for each row of the chunk, or the part of it that is in it, in order.
  template <class Visit>
  void for_each_row(std::uint64_t chunk, Visit visit) const {
    const auto number = static_cast<std::int64_t>(chunk);
    const std::int64_t begin = box_.first[2] + number % cuts_ * kChunk;
    const std::int64_t end = std::min(begin + (cuts_ > 1 ? kChunk : box_.extent(2)), box_.last[2]);
    const std::int64_t first = number / cuts_ * rows_;
    const std::int64_t last = std::min(first + rows_, all_rows());
    for (std::int64_t row = first; row < last; ++row) {
      visit(box_.first[0] + row / box_.extent(1), box_.first[1] + row % box_.extent(1), begin, end);
    }
  }

 private:
  [[nodiscard]] std::int64_t all_rows() const { return box_.extent(0) * box_.extent(1); }

  Box box_;
  bool empty_;
  std::int64_t cuts_;  ///< of a row
  std::int64_t rows_;  ///< of a chunk
};

}  // namespace farside::arrays
