// numbers.h — what the kernels have in common: numbers without a pattern, grids, small systems, and a number that tells
// whether two runs computed the same.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace farside::bench {

/// The same without a pattern for each `place`. (Steele, Lea and Flood's SplitMix64.)
inline std::uint64_t scattered(std::uint64_t place) {
  std::uint64_t x = place + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111eb;
  return x ^ (x >> 31U);
}

/// Between -1 and 1.
inline double noise(std::uint64_t place) { return static_cast<double>(scattered(place) >> 11U) * 0x1p-52 - 1; }

/// Of all bits and their order.
template <class T>
[[nodiscard]] std::uint64_t fingerprint(std::span<const T> values) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::uint64_t sum = 14695981039346656037U;
  for (const T& value : values) sum = (sum ^ std::bit_cast<Word>(value)) * 1099511628211U;
  return sum;
}

/// Throws unless it is a number, and less than `limit`.
inline void expect_below(double value, double limit, const char* what) {
  if (!(value < limit)) throw std::runtime_error(std::string(what) + " is " + std::to_string(value));
}

/// A cube of n^3 cells; neighbours along i lie side by side.
template <class T>
class Cube {
 public:
  Cube() = default;
  Cube(std::span<T> cells, std::size_t n) : cells_(cells), n_(n) {}

  [[nodiscard]] T& operator()(std::size_t i, std::size_t j, std::size_t k) const {
    return cells_[(k * n_ + j) * n_ + i];
  }
  [[nodiscard]] T& operator[](std::size_t place) const { return cells_[place]; }
  [[nodiscard]] std::size_t n() const { return n_; }
  [[nodiscard]] std::span<T> cells() const { return cells_; }

 private:
  std::span<T> cells_;
  std::size_t n_ = 0;
};

/// The edge of a cube of which each cell takes so many bytes.
inline std::size_t edge_of(std::uint64_t bytes, std::size_t bytes_each) {
  return static_cast<std::size_t>(std::cbrt(static_cast<double>(bytes) / static_cast<double>(bytes_each)));
}

}  // namespace farside::bench
