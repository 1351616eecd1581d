// In the manner of NAS bt: implicit steps of a flow, factored into systems along lines that are tridiagonal in blocks
// of 5 x 5.
#include "bench/far/kernels/directions.h"

namespace farside::bench {
namespace {

constexpr std::size_t kDerived = 6;

class BlockTridiagonal final : public LineKernel {
 public:
  BlockTridiagonal(Memory& memory, KernelSize size) : LineKernel(memory, size, kDerived), next_(flow_.n()) {}

 private:
  /// What a point's neighbour along the line counts in its equation.
  [[nodiscard]] Matrix neighbour(std::size_t direction, std::size_t place, double sign) const {
    Matrix matrix = coupling(flow_.u[place], derived_.speed(direction, place));
    for (std::size_t row = 0; row < 5; ++row) {
      for (std::size_t column = 0; column < 5; ++column) matrix[row][column] *= sign * kStep / 2;
      matrix[row][row] -= kStep * kSpread;
    }
    return matrix;
  }

  // Thomas' algorithm. Nothing changes on the surface.
  void solve_line(std::size_t direction, const std::vector<std::size_t>& places) override {
    const std::size_t last = places.size() - 1;
    next_[0] = {};
    flow_.change[places[0]] = {};
    flow_.change[places[last]] = {};
    for (std::size_t l = 1; l < last; ++l) {
      const Matrix before = neighbour(direction, places[l - 1], -1);
      const Matrix after = neighbour(direction, places[l + 1], 1);
      Matrix diagonal{};
      std::array<Five, 6> sides{};  // the columns of `after`, and the right side
      for (std::size_t column = 0; column < 5; ++column) {
        const Five taken = product(before, next_[l - 1][column]);
        for (std::size_t row = 0; row < 5; ++row) {
          diagonal[row][column] = (row == column ? 1 + 2 * kStep * kSpread : 0) - taken[row];
          sides[column][row] = after[row][column];
        }
      }
      const Five taken = product(before, flow_.change[places[l - 1]]);
      sides[5] = flow_.change[places[l]];
      for (std::size_t row = 0; row < 5; ++row) sides[5][row] -= taken[row];
      solve(diagonal, sides);
      for (std::size_t column = 0; column < 5; ++column) next_[l][column] = sides[column];
      flow_.change[places[l]] = sides[5];
    }
    for (std::size_t l = last - 1; l > 0; --l) {
      Five& x = flow_.change[places[l]];
      const Five& after = flow_.change[places[l + 1]];
      for (std::size_t column = 0; column < 5; ++column) {
        for (std::size_t row = 0; row < 5; ++row) x[row] -= next_[l][column][row] * after[column];
      }
    }
  }

  std::vector<Matrix> next_;  ///< of the line that is being solved: what the next point counts, by columns
};

}  // namespace

std::unique_ptr<Kernel> make_bt(Memory& memory, KernelSize size) {
  return std::make_unique<BlockTridiagonal>(memory, size);
}

}  // namespace farside::bench
