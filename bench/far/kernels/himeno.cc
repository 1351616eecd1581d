// Himeno's benchmark, after its published description: Jacobi's method for Poisson's equation in general coordinates,
// with a stencil of 19 points. Its coefficients are the published ones with a little noise: in the original, pages of
// zeros and of ones need no memory in a system that looks for such pages.
#include <array>
#include <cmath>

#include "bench/far/kernels/kernel.h"
#include "bench/far/kernels/numbers.h"

namespace farside::bench {
namespace {

constexpr std::size_t kArrays = 14;
constexpr float kOmega = 0.8F;
constexpr double kOperationsEach = 34;  // as the original counts

/// The largest n of which all arrays, of n x n x (2n - 1) cells each, fit.
std::size_t edge_within(std::uint64_t bytes) {
  std::size_t n = 1;
  while ((n + 1) * (n + 1) * (2 * n + 1) * kArrays * sizeof(float) <= bytes) ++n;
  return n;
}

/// n x n x (2n - 1) cells; neighbours along k lie side by side.
class Box {
 public:
  Box(Memory& memory, std::size_t n, Use use)
      : n_(n), depth_(2 * n - 1), cells_(take<float>(memory, n * n * depth_, use)) {}

  [[nodiscard]] float* row(std::size_t i, std::size_t j) const { return cells_.data() + (i * n_ + j) * depth_; }
  [[nodiscard]] std::span<float> cells() const { return cells_; }
  [[nodiscard]] std::size_t depth() const { return depth_; }
  void fill(float value, float variation) const {
    for (std::size_t place = 0; place < cells_.size(); ++place) {
      cells_[place] = value + variation * static_cast<float>(noise(place));
    }
  }

 private:
  std::size_t n_;
  std::size_t depth_;
  std::span<float> cells_;
};

class Himeno final : public Kernel {
 public:
  Himeno(Memory& memory, KernelSize size)
      : n_(edge_within(size.bytes)),
        rounds_(size.rounds),
        p_(memory, n_, Use::updated),
        next_(memory, n_, Use::updated),
        source_(memory, n_, Use::read_mostly),
        inside_(memory, n_, Use::read_mostly),
        a_{box(memory), box(memory), box(memory), box(memory)},
        b_{box(memory), box(memory), box(memory)},
        c_{box(memory), box(memory), box(memory)} {}

  void prepare() override {
    constexpr float kVariation = 1e-3F;
    for (const Box& a : a_) a.fill(1, kVariation);
    a_[3].fill(1.0F / 6, kVariation);
    for (const Box& b : b_) b.fill(0, kVariation);
    for (const Box& c : c_) c.fill(1, kVariation);
    source_.fill(0, kVariation);
    inside_.fill(1, kVariation);
    for (std::size_t i = 0; i < n_; ++i) {
      const auto x = static_cast<float>(i) / static_cast<float>(n_ - 1);
      for (std::size_t j = 0; j < n_; ++j) {
        std::fill_n(p_.row(i, j), p_.depth(), x * x);
        std::fill_n(next_.row(i, j), p_.depth(), x * x);
      }
    }
  }

  void run() override {
    for (unsigned round = 0; round < rounds_; ++round) {
      gosa_ = 0;
      for (std::size_t i = 1; i + 1 < n_; ++i) {
        for (std::size_t j = 1; j + 1 < n_; ++j) gosa_ += relax_row(i, j);
      }
      for (std::size_t i = 1; i + 1 < n_; ++i) {
        for (std::size_t j = 1; j + 1 < n_; ++j) {
          std::copy(next_.row(i, j) + 1, next_.row(i, j) + p_.depth() - 1, p_.row(i, j) + 1);
        }
      }
    }
  }

  [[nodiscard]] std::uint64_t checked() const override {
    expect_below(std::abs(gosa_), static_cast<double>(p_.cells().size()), "Himeno's residual");
    return fingerprint<float>(p_.cells()) ^ fingerprint<float>(std::array{gosa_});
  }
  [[nodiscard]] double operations() const override {
    const auto inner = static_cast<double>((n_ - 2) * (n_ - 2) * (p_.depth() - 2));
    return kOperationsEach * inner * rounds_;
  }

 private:
  [[nodiscard]] Box box(Memory& memory) const { return {memory, n_, Use::read_mostly}; }

  [[nodiscard]] float relax_row(std::size_t i, std::size_t j) const {
    const float* const p = p_.row(i, j);
    const float* const up = p_.row(i + 1, j);
    const float* const down = p_.row(i - 1, j);
    const float* const right = p_.row(i, j + 1);
    const float* const left = p_.row(i, j - 1);
    const float* const up_right = p_.row(i + 1, j + 1);
    const float* const up_left = p_.row(i + 1, j - 1);
    const float* const down_right = p_.row(i - 1, j + 1);
    const float* const down_left = p_.row(i - 1, j - 1);
    const auto of = [i, j](const auto& boxes, std::size_t which) { return boxes[which].row(i, j); };
    float* const next = next_.row(i, j);
    float gosa = 0;
    for (std::size_t k = 1; k + 1 < p_.depth(); ++k) {
      const float sum = of(a_, 0)[k] * up[k] + of(a_, 1)[k] * right[k] + of(a_, 2)[k] * p[k + 1] +
                        of(b_, 0)[k] * (up_right[k] - up_left[k] - down_right[k] + down_left[k]) +
                        of(b_, 1)[k] * (right[k + 1] - left[k + 1] - right[k - 1] + left[k - 1]) +
                        of(b_, 2)[k] * (up[k + 1] - down[k + 1] - up[k - 1] + down[k - 1]) + of(c_, 0)[k] * down[k] +
                        of(c_, 1)[k] * left[k] + of(c_, 2)[k] * p[k - 1] + source_.row(i, j)[k];
      const float change = (sum * of(a_, 3)[k] - p[k]) * inside_.row(i, j)[k];
      gosa += change * change;
      next[k] = p[k] + kOmega * change;
    }
    return gosa;
  }

  std::size_t n_;
  unsigned rounds_;
  Box p_;
  Box next_;
  Box source_;
  Box inside_;
  std::array<Box, 4> a_;
  std::array<Box, 3> b_;
  std::array<Box, 3> c_;
  float gosa_ = 0;  ///< of the last round, as the original calls it: how much changed
};

}  // namespace

std::unique_ptr<Kernel> make_himeno(Memory& memory, KernelSize size) { return std::make_unique<Himeno>(memory, size); }

}  // namespace farside::bench
