// In the manner of NAS sp: implicit steps of a flow, factored into systems along lines that are pentadiagonal, each
// quantity for itself.
#include "bench/far/kernels/directions.h"

namespace farside::bench {
namespace {

constexpr std::size_t kDerived = 7;
constexpr double kDamping = 0.02;

class Pentadiagonal final : public LineKernel {
 public:
  Pentadiagonal(Memory& memory, KernelSize size) : LineKernel(memory, size, kDerived), rows_(flow_.n()) {}

 private:
  void solve_line(std::size_t direction, const std::vector<std::size_t>& places) override {
    const std::size_t last = places.size() - 1;
    flow_.change[places[0]] = {};
    flow_.change[places[last]] = {};
    for (const double wave : {-1.0, 0.0, 1.0}) {  // what travels with the flow, and sound that runs ahead or behind
      fill_rows(direction, places, wave);
      if (wave == 0) {
        for (std::size_t m = 0; m < 3; ++m) eliminate(places, m, m == 2);
      } else {
        eliminate(places, wave < 0 ? 3 : 4, true);
      }
    }
  }

  void fill_rows(std::size_t direction, const std::vector<std::size_t>& places, double wave) {
    const std::size_t last = places.size() - 1;
    rows_[0] = rows_[last] = {0, 0, 1, 0, 0};
    const auto carried = [&](std::size_t l) {
      return kStep / 2 * (derived_.speed(direction, places[l]) + wave * 0.1 * derived_.other(places[l]));
    };
    for (std::size_t l = 1; l < last; ++l) {
      const double spread = kStep * kSpread;
      rows_[l] = {kDamping, -spread - 4 * kDamping - carried(l - 1), 1 + 2 * spread + 6 * kDamping,
                  -spread - 4 * kDamping + carried(l + 1), kDamping};
    }
    rows_[1][0] = rows_[last - 1][4] = 0;
  }

  /// Solves for quantity m. The rows are spent if they are not needed for another.
  void eliminate(const std::vector<std::size_t>& places, std::size_t m, bool is_last) {
    std::vector<Five>& rows = is_last ? rows_ : spare_;
    if (!is_last) spare_ = rows_;
    const auto x = [&](std::size_t l) -> double& { return flow_.change[places[l]][m]; };
    const std::size_t n = places.size();
    for (std::size_t l = 0; l < n; ++l) {
      Five& row = rows[l];
      const double inverse = 1 / row[2];
      row[3] *= inverse;
      row[4] *= inverse;
      x(l) *= inverse;
      for (std::size_t below = 1; below <= 2 && l + below < n; ++below) {
        Five& other = rows[l + below];
        const double factor = other[2 - below];
        other[3 - below] -= factor * row[3];
        other[4 - below] -= factor * row[4];
        x(l + below) -= factor * x(l);
      }
    }
    for (std::size_t l = n - 1; l-- > 0;) {
      x(l) -= rows[l][3] * x(l + 1);
      if (l + 2 < n) x(l) -= rows[l][4] * x(l + 2);
    }
  }

  std::vector<Five> rows_;  ///< of the line that is being solved: the five diagonals
  std::vector<Five> spare_;
};

}  // namespace

std::unique_ptr<Kernel> make_sp(Memory& memory, KernelSize size) {
  return std::make_unique<Pentadiagonal>(memory, size);
}

}  // namespace farside::bench
