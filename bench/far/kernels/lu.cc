// In the manner of NAS lu: a flow's implicit steps by symmetric successive over-relaxation, which solves for a point
// after its three neighbours that come before it, and then the other way round. `lu` goes plane after plane; `lu-hp`
// goes along the hyperplanes i + j + k = constant, whose points do not depend on one another: every one lies on another
// page. Both compute the same.
#include "bench/far/kernels/flow.h"
#include "bench/far/kernels/kernel.h"

namespace farside::bench {
namespace {

constexpr double kRelaxation = 1.2;
constexpr std::size_t kDerivedBytes = 2 * sizeof(double);

class Ssor final : public Kernel {
 public:
  Ssor(Memory& memory, KernelSize size, bool along_hyperplanes)
      : rounds_(size.rounds),
        flow_(memory,
              edge_of(size.bytes, kPointBytes + kDerivedBytes + (along_hyperplanes ? sizeof(std::uint32_t) : 0))),
        inverse_(take<double>(memory, flow_.u.cells().size(), Use::updated), flow_.n()),
        energy_(take<double>(memory, flow_.u.cells().size(), Use::updated), flow_.n()) {
    if (along_hyperplanes) {
      const std::size_t inner = flow_.n() - 2;
      order_ = take<std::uint32_t>(memory, inner * inner * inner, Use::read_mostly);
    }
  }

  void prepare() override {
    flow_.prepare();
    if (order_.empty()) return;
    const std::size_t n = flow_.n();
    std::size_t next = 0;
    for (std::size_t sum = 3; sum <= 3 * (n - 2); ++sum) {
      for (std::size_t k = 1; k + 1 < n; ++k) {
        for (std::size_t j = 1; j + 1 < n; ++j) {
          if (j + k >= sum || sum - j - k > n - 2) continue;
          order_[next++] = static_cast<std::uint32_t>((k * n + j) * n + sum - j - k);
        }
      }
    }
  }

  void run() override {
    for (unsigned round = 0; round < rounds_; ++round) {
      derive();
      flow_.begin_step([&](std::size_t i, std::size_t j, std::size_t k) { return speed((k * n() + j) * n() + i); });
      sweep(false);
      sweep(true);
      flow_.end_step();
    }
  }

  [[nodiscard]] std::uint64_t checked() const override { return flow_.checked(); }

 private:
  [[nodiscard]] std::size_t n() const { return flow_.n(); }
  void derive() {
    for (std::size_t place = 0; place < flow_.u.cells().size(); ++place) {
      const Five& u = flow_.u[place];
      inverse_[place] = 1 / u[0];
      energy_[place] = (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) * inverse_[place] / 2;
    }
  }
  [[nodiscard]] std::array<double, 3> speed(std::size_t place) const {
    const Five& u = flow_.u[place];
    const double slow = 0.2 * inverse_[place];
    return {slow * u[1] - 0.2, slow * u[2] - 0.2, slow * u[3] - 0.1 * energy_[place]};
  }

  void sweep(bool backwards) {
    const std::size_t all = order_.size();
    if (!order_.empty()) {
      for (std::size_t at = 0; at < all; ++at) relax(order_[backwards ? all - 1 - at : at], backwards);
      return;
    }
    const auto turned = [&](std::size_t x) { return backwards ? n() - 1 - x : x; };
    flow_.for_inner([&](std::size_t i, std::size_t j, std::size_t k) {
      relax((turned(k) * n() + turned(j)) * n() + turned(i), backwards);
    });
  }

  void relax(std::size_t place, bool backwards) {
    const std::array<std::size_t, 3> strides{1, n(), n() * n()};
    Five right = flow_.change[place];
    const double sign = backwards ? 1 : -1;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::size_t other = backwards ? place + strides[d] : place - strides[d];
      Matrix matrix = coupling(flow_.u[other], speed(other)[d]);
      const Five taken = product(matrix, flow_.change[other]);
      for (std::size_t m = 0; m < 5; ++m) {
        right[m] -= kRelaxation * kStep * (sign * taken[m] / 2 - kSpread * flow_.change[other][m]);
      }
    }
    Matrix diagonal = coupling(flow_.u[place], 0);
    for (std::size_t row = 0; row < 5; ++row) {
      for (double& entry : diagonal[row]) entry *= kStep;
      diagonal[row][row] += 1 + 6 * kStep * kSpread;
    }
    std::array<Five, 1> sides{right};
    solve(diagonal, sides);
    flow_.change[place] = sides[0];
  }

  unsigned rounds_;
  Flow flow_;
  Cube<double> inverse_;  ///< of the density
  Cube<double> energy_;
  std::span<std::uint32_t> order_;  ///< of the points, along hyperplanes; empty: as they lie
};

}  // namespace

std::unique_ptr<Kernel> make_lu(Memory& memory, KernelSize size) { return std::make_unique<Ssor>(memory, size, false); }
std::unique_ptr<Kernel> make_lu_hp(Memory& memory, KernelSize size) {
  return std::make_unique<Ssor>(memory, size, true);
}

}  // namespace farside::bench
