// input.h — an input that is read a little at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace farside::fuzz {

class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : left_(bytes) {}

  [[nodiscard]] bool is_over() const { return left_.empty(); }
  /// 0 when there is none.
  std::uint64_t byte() {
    const auto taken = bytes(1);
    return taken.empty() ? 0 : std::to_integer<std::uint64_t>(taken.front());
  }
  std::span<const std::byte> bytes(std::size_t most) {
    const auto taken = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> left_;
};

}  // namespace farside::fuzz
