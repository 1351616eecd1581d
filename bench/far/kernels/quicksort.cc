// Quicksort of 4-byte integers, in place. Not the C library's, which may merge through a second array.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bench/far/kernels/kernel.h"
#include "bench/far/kernels/numbers.h"

namespace farside::bench {
namespace {

constexpr std::ptrdiff_t kFew = 16;

void insert_each(std::int32_t* first, const std::int32_t* last) {
  for (std::int32_t* next = first + 1; next < last; ++next) {
    const std::int32_t value = *next;
    std::int32_t* hole = next;
    for (; hole != first && value < hole[-1]; --hole) *hole = hole[-1];
    *hole = value;
  }
}

/// Puts the median of the first, the middle and the last into the middle, and says what it is.
std::int32_t median_of_three(std::int32_t* first, std::int32_t* last) {
  std::int32_t* const middle = first + (last - first) / 2;
  std::int32_t* const end = last - 1;
  if (*middle < *first) std::swap(*middle, *first);
  if (*end < *middle) std::swap(*end, *middle);
  if (*middle < *first) std::swap(*middle, *first);
  return *middle;
}

// Hoare's partition; the shorter part first, so that the stack stays flat.
void sort(std::int32_t* first, std::int32_t* last) {
  while (last - first > kFew) {
    const std::int32_t pivot = median_of_three(first, last);
    std::int32_t* left = first;
    std::int32_t* right = last - 1;
    for (;;) {
      while (*left < pivot) ++left;
      while (pivot < *right) --right;
      if (left >= right) break;
      std::swap(*left++, *right--);
    }
    std::int32_t* const cut = right + 1;
    if (cut - first < last - cut) {
      sort(first, cut);
      first = cut;
    } else {
      sort(cut, last);
      last = cut;
    }
  }
  if (first != last) insert_each(first, last);
}

class Quicksort final : public Kernel {
 public:
  Quicksort(Memory& memory, KernelSize size)
      : numbers_(take<std::int32_t>(memory, size.bytes / sizeof(std::int32_t), Use::updated)) {}

  void prepare() override {
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      numbers_[i] = static_cast<std::int32_t>(scattered(i));
      sum_ += scattered(static_cast<std::uint32_t>(numbers_[i]));
    }
  }

  void run() override { sort(numbers_.data(), numbers_.data() + numbers_.size()); }

  [[nodiscard]] std::uint64_t checked() const override {
    std::uint64_t sum = 0;
    for (const std::int32_t number : numbers_) sum += scattered(static_cast<std::uint32_t>(number));
    if (sum != sum_) throw std::runtime_error("these are not the numbers that were to be sorted");
    if (!std::ranges::is_sorted(numbers_)) throw std::runtime_error("the numbers are not sorted");
    return fingerprint<std::int32_t>(numbers_);
  }

 private:
  std::span<std::int32_t> numbers_;
  std::uint64_t sum_ = 0;  ///< of the numbers in any order
};

}  // namespace

std::unique_ptr<Kernel> make_quicksort(Memory& memory, KernelSize size) {
  return std::make_unique<Quicksort>(memory, size);
}

}  // namespace farside::bench
