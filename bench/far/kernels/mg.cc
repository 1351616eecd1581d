// In the manner of NAS mg: V-cycles of multigrid for Poisson's equation on a periodic cube.
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "bench/far/kernels/kernel.h"
#include "bench/far/kernels/numbers.h"

namespace farside::bench {
namespace {

/// What a cell, its 6 faces, 12 edges and 8 corners count.
using Weights = std::array<double, 4>;
constexpr Weights kOperator{-8.0 / 3, 0, 1.0 / 6, 1.0 / 12};
constexpr Weights kSmoother{-3.0 / 8, 1.0 / 32, -1.0 / 64, 0};
constexpr Weights kRestriction{1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16};
constexpr std::size_t kCoarsest = 4;

using Grid = Cube<double>;

/// Calls `then(i, weighted sum of the 27 cells around (i, j, k))` for each cell of a row, or for every second.
template <class Then>
void for_row(const Grid& grid, std::size_t j, std::size_t k, const Weights& weights, std::size_t step, Then&& then) {
  const std::size_t n = grid.n();
  const std::size_t mask = n - 1;
  const auto row = [&](std::size_t jj, std::size_t kk) { return &grid(0, jj & mask, kk & mask); };
  const double* const centre = row(j, k);
  const std::array faces{row(j - 1, k), row(j + 1, k), row(j, k - 1), row(j, k + 1)};
  const std::array edges{row(j - 1, k - 1), row(j + 1, k - 1), row(j - 1, k + 1), row(j + 1, k + 1)};
  const auto sum = [](const auto& rows, std::size_t i) { return rows[0][i] + rows[1][i] + rows[2][i] + rows[3][i]; };
  for (std::size_t i = 0; i < n; i += step) {
    const std::size_t before = (i - 1) & mask;
    const std::size_t after = (i + 1) & mask;
    then(i, weights[0] * centre[i] + weights[1] * (centre[before] + centre[after] + sum(faces, i)) +
                weights[2] * (sum(faces, before) + sum(faces, after) + sum(edges, i)) +
                weights[3] * (sum(edges, before) + sum(edges, after)));
  }
}

template <class Body>
void for_rows(std::size_t n, std::size_t step, Body&& body) {
  for (std::size_t k = 0; k < n; k += step) {
    for (std::size_t j = 0; j < n; j += step) body(j, k);
  }
}

/// residual = right - operator(u). `residual` may be `right`.
void residual_of(const Grid& u, const Grid& right, const Grid& residual) {
  for_rows(u.n(), 1, [&](std::size_t j, std::size_t k) {
    for_row(u, j, k, kOperator, 1, [&](std::size_t i, double sum) { residual(i, j, k) = right(i, j, k) - sum; });
  });
}

void smooth(const Grid& residual, const Grid& u) {
  for_rows(u.n(), 1, [&](std::size_t j, std::size_t k) {
    for_row(residual, j, k, kSmoother, 1, [&](std::size_t i, double sum) { u(i, j, k) += sum; });
  });
}

void restrict_to(const Grid& coarse, const Grid& fine) {
  for_rows(fine.n(), 2, [&](std::size_t j, std::size_t k) {
    for_row(fine, j, k, kRestriction, 2, [&](std::size_t i, double sum) { coarse(i / 2, j / 2, k / 2) = sum; });
  });
}

/// Adds what lies between the coarse cells.
void interpolate(const Grid& coarse, const Grid& fine) {
  const std::size_t mask = coarse.n() - 1;
  for_rows(fine.n(), 1, [&](std::size_t j, std::size_t k) {
    const std::array rows{&coarse(0, j / 2, k / 2), &coarse(0, (j + 1) / 2 & mask, k / 2),
                          &coarse(0, j / 2, (k + 1) / 2 & mask), &coarse(0, (j + 1) / 2 & mask, (k + 1) / 2 & mask)};
    for (std::size_t i = 0; i < fine.n(); ++i) {
      double sum = 0;
      for (const double* const row : rows) sum += row[i / 2] + row[(i + 1) / 2 & mask];
      fine(i, j, k) += sum / 8;
    }
  });
}

class Multigrid final : public Kernel {
 public:
  Multigrid(Memory& memory, KernelSize size) : rounds_(size.rounds) {
    // Three grids, two of them with all that are coarser.
    const std::size_t n = std::bit_floor(edge_of(size.bytes, 26) * 101 / 100);
    const auto grid = [&](std::size_t edge, Use use) {
      return Grid(take<double>(memory, edge * edge * edge, use), edge);
    };
    right_ = grid(n, Use::read_mostly);
    for (std::size_t edge = n; edge >= kCoarsest; edge /= 2) {
      u_.push_back(grid(edge, Use::updated));
      r_.push_back(grid(edge, Use::updated));
    }
  }

  void prepare() override {
    for (std::size_t place = 0; place < right_.cells().size(); ++place) right_[place] = noise(place);
    residual_of(u_[0], right_, r_[0]);
    first_norm_ = norm();
  }

  void run() override {
    for (unsigned round = 0; round < rounds_; ++round) {
      cycle();
      residual_of(u_[0], right_, r_[0]);
    }
  }

  [[nodiscard]] std::uint64_t checked() const override {
    expect_below(norm(), first_norm_ / 2, "the residual");
    return fingerprint<double>(u_[0].cells()) ^ fingerprint<double>(r_[0].cells());
  }

 private:
  void cycle() {
    const std::size_t last = u_.size() - 1;
    for (std::size_t level = 0; level < last; ++level) restrict_to(r_[level + 1], r_[level]);
    for (std::size_t level = last; level > 0; --level) {
      std::ranges::fill(u_[level].cells(), 0.0);
      if (level != last) {
        interpolate(u_[level + 1], u_[level]);
        residual_of(u_[level], r_[level], r_[level]);
      }
      smooth(r_[level], u_[level]);
    }
    interpolate(u_[1], u_[0]);
    residual_of(u_[0], right_, r_[0]);
    smooth(r_[0], u_[0]);
  }
  [[nodiscard]] double norm() const {
    double sum = 0;
    for (const double value : r_[0].cells()) sum += value * value;
    return std::sqrt(sum);
  }

  unsigned rounds_;
  Grid right_;
  std::vector<Grid> u_;  ///< from the finest to the coarsest
  std::vector<Grid> r_;
  double first_norm_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_mg(Memory& memory, KernelSize size) { return std::make_unique<Multigrid>(memory, size); }

}  // namespace farside::bench
