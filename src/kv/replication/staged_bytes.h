// staged_bytes.h — bytes that are appended at the end and dropped at the front. It stands alone: a vector whose front
// is erased moves all the rest each time, which for a copy that is far behind takes longer than to ship it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/assert.h"

namespace farside::kv {

class StagedBytes {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() - dropped_; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::span<std::byte> span() noexcept { return std::span(bytes_).subspan(dropped_); }

  /// Returns `count` more bytes at the end, zeroed.
  std::span<std::byte> append(std::size_t count) {
    if (bytes_.size() + count > bytes_.capacity()) compact();
    bytes_.resize(bytes_.size() + count);
    return std::span(bytes_).last(count);
  }
  void drop_front(std::size_t count) {
    assert_that(count <= size(), "no more is dropped than there is");
    dropped_ += count;
    if (dropped_ >= bytes_.size() / 2) compact();
    if (bytes_.empty() && bytes_.capacity() > kKept) bytes_ = {};
  }

 private:
  static constexpr std::size_t kKept = 4U << 20U;  ///< of memory, while there is nothing

  void compact() {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(dropped_));
    dropped_ = 0;
  }

  std::vector<std::byte> bytes_;
  std::size_t dropped_ = 0;  ///< of its front
};

}  // namespace farside::kv
