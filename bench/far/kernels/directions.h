// directions.h — what bt and sp have in common: a step solves systems along all lines of one direction, then of the
// next. Lines along k go from plane to plane.
#pragma once

#include <vector>

#include "bench/far/kernels/flow.h"
#include "bench/far/kernels/kernel.h"

namespace farside::bench {

/// Derived from the quantities at the beginning of each step: one number a point each.
class Derived {
 public:
  Derived(Memory& memory, std::size_t n, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      fields_.emplace_back(take<double>(memory, n * n * n, Use::updated), n);
    }
  }

  /// The first is the inverse of the density, three are speeds, the others' squares and the like.
  void compute(const Cube<Five>& u) const {
    for (std::size_t place = 0; place < u.cells().size(); ++place) {
      const Five& point = u[place];
      const double inverse = 1 / point[0];
      fields_[0][place] = inverse;
      for (std::size_t d = 0; d < 3; ++d) fields_[1 + d][place] = 0.2 * (point[1 + d] * inverse - 1);
      for (std::size_t other = 4; other < fields_.size(); ++other) {
        fields_[other][place] = point[other - 3] * point[other - 3] * inverse / 2;
      }
    }
  }
  [[nodiscard]] double speed(std::size_t direction, std::size_t place) const { return fields_[1 + direction][place]; }
  [[nodiscard]] double other(std::size_t place) const { return fields_.back()[place]; }

 private:
  std::vector<Cube<double>> fields_;
};

/// One run of it. What is solved along each line is the kernel's own.
class LineKernel : public Kernel {
 public:
  void prepare() final { flow_.prepare(); }

  void run() final {
    const std::size_t n = flow_.n();
    for (unsigned round = 0; round < rounds_; ++round) {
      derived_.compute(flow_.u);
      flow_.begin_step([&](std::size_t i, std::size_t j, std::size_t k) {
        const std::size_t place = (k * n + j) * n + i;
        return std::array{derived_.speed(0, place), derived_.speed(1, place), derived_.speed(2, place)};
      });
      solve_all_lines();
      flow_.end_step();
    }
  }

  [[nodiscard]] std::uint64_t checked() const final { return flow_.checked(); }

 protected:
  LineKernel(Memory& memory, KernelSize size, std::size_t derived)
      : flow_(memory, edge_of(size.bytes, kPointBytes + derived * sizeof(double))),
        derived_(memory, flow_.n(), derived),
        rounds_(size.rounds) {}

  /// `places[l]` is where point l of the line lies.
  virtual void solve_line(std::size_t direction, const std::vector<std::size_t>& places) = 0;

  // NOLINTBEGIN(misc-non-private-member-variables-in-classes): what is solved lies in them
  Flow flow_;
  const Derived derived_;
  // NOLINTEND(misc-non-private-member-variables-in-classes)

 private:
  /// The inner lines of the three directions, one direction after the other.
  void solve_all_lines() {
    const std::size_t n = flow_.n();
    std::vector<std::size_t> places(n);
    const std::array<std::size_t, 3> strides{1, n, n * n};
    constexpr std::array<std::array<std::size_t, 2>, 3> kOthers{{{2, 1}, {2, 0}, {1, 0}}};
    for (std::size_t direction = 0; direction < 3; ++direction) {
      for (std::size_t slow = 1; slow + 1 < n; ++slow) {
        for (std::size_t quick = 1; quick + 1 < n; ++quick) {
          const auto [slower, quicker] = kOthers[direction];
          const std::size_t first = slow * strides[slower] + quick * strides[quicker];
          for (std::size_t l = 0; l < n; ++l) places[l] = first + l * strides[direction];
          solve_line(direction, places);
        }
      }
    }
  }

  unsigned rounds_;
};

}  // namespace farside::bench
