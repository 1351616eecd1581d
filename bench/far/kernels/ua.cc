// In the manner of NAS ua: heat on spectral elements of 5 x 5 x 5 points. A refinement that follows the source of the
// heat appends elements where there is room, so neighbours lie anywhere: they are found through an index, and faces are
// gathered from and scattered over all memory. Conjugate gradients between the refinements.
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "bench/far/kernels/kernel.h"
#include "bench/far/kernels/numbers.h"

namespace farside::bench {
namespace {

constexpr std::size_t kEdge = 5;
constexpr std::size_t kPoints = kEdge * kEdge * kEdge;
constexpr std::size_t kFaces = 6;
constexpr std::array<std::size_t, 3> kStrides{1, kEdge, kEdge* kEdge};
constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr unsigned kIterations = 5;  // between two refinements
constexpr std::size_t kMoved = 16;   // of so many elements one moves when the mesh is refined
constexpr double kJump = 2;          // what a difference across a face costs

using Element = std::array<double, kPoints>;
using Neighbours = std::array<std::uint32_t, kFaces>;  ///< in -i, +i, -j, +j, -k, +k
constexpr std::size_t kFields = 8;
constexpr std::size_t kElementBytes = kFields * sizeof(Element) + sizeof(Neighbours);

/// Where on a face its 25 points are, within the element.
template <class Then>
void for_face(std::size_t face, Then&& then) {
  const std::size_t across = kStrides[face / 2];
  const std::size_t first = face % 2 == 0 ? 0 : (kEdge - 1) * across;
  const std::size_t opposite = face % 2 == 0 ? (kEdge - 1) * across : 0;
  const std::size_t a = kStrides[(face / 2 + 1) % 3];
  const std::size_t b = kStrides[(face / 2 + 2) % 3];
  for (std::size_t x = 0; x < kEdge; ++x) {
    for (std::size_t y = 0; y < kEdge; ++y) then(first + x * a + y * b, opposite + x * a + y * b);
  }
}

class Unstructured final : public Kernel {
 public:
  Unstructured(Memory& memory, KernelSize size)
      : rounds_(size.rounds),
        edge_(edge_of(size.bytes, kElementBytes)),
        count_(edge_ * edge_ * edge_),
        neighbours_(take<Neighbours>(memory, count_, Use::updated)) {
    for (auto* const field : {&heat_, &residual_, &direction_, &applied_, &source_}) {
      *field = take<Element>(memory, count_, Use::updated);
    }
    for (auto& conduct : conduct_) conduct = take<Element>(memory, count_, Use::read_mostly);
  }

  void prepare() override {
    place_.resize(count_);
    std::iota(place_.begin(), place_.end(), 0U);
    for (std::size_t i = count_; i-- > 1;) std::swap(place_[i], place_[scattered(i) % (i + 1)]);
    link();
    for (std::size_t e = 0; e < count_; ++e) {
      for (std::size_t p = 0; p < kPoints; ++p) {
        for (std::size_t d = 0; d < 3; ++d) conduct_[d][e][p] = 1 + 0.2 * noise((e * kPoints + p) * 3 + d);
        source_[e][p] = noise(~(e * kPoints + p));
      }
    }
  }

  void run() override {
    for (unsigned round = 0; round < rounds_; ++round) {
      heat_source(round);
      conjugate_gradients();
      refine(round);
    }
  }

  [[nodiscard]] std::uint64_t checked() const override {
    expect_below(reduction_, 0.5, "what is left of the residual");
    const auto values = [](std::span<const Element> field) {
      return std::span<const double>(field.data()->data(), field.size() * kPoints);
    };
    return fingerprint<double>(values(heat_)) ^ fingerprint<double>(values(residual_));
  }

 private:
  [[nodiscard]] std::size_t cell(std::size_t i, std::size_t j, std::size_t k) const {
    return (k * edge_ + j) * edge_ + i;
  }

  void link() {
    for (std::size_t k = 0; k < edge_; ++k) {
      for (std::size_t j = 0; j < edge_; ++j) {
        for (std::size_t i = 0; i < edge_; ++i) link_one(i, j, k);
      }
    }
  }
  void link_one(std::size_t i, std::size_t j, std::size_t k) {
    const std::array<std::size_t, 3> at{i, j, k};
    const std::array<std::size_t, 3> strides{1, edge_, edge_ * edge_};
    const std::size_t self = cell(i, j, k);
    for (std::size_t face = 0; face < kFaces; ++face) {
      const std::size_t d = face / 2;
      const bool before = face % 2 == 0;
      const bool on_surface = at[d] == (before ? 0 : edge_ - 1);
      neighbours_[place_[self]][face] = on_surface ? kNone : place_[before ? self - strides[d] : self + strides[d]];
    }
  }

  /// The source is in another part of the cube each round.
  void heat_source(unsigned round) {
    const std::size_t far_side = round * edge_ / (rounds_ + 1);
    for (std::size_t k = 0; k < edge_; ++k) {
      for (std::size_t j = 0; j < edge_; ++j) {
        for (double& value : source_[place_[cell(far_side, j, k)]]) value += 1;
      }
    }
  }

  /// result = (identity + stiffness + jumps) x: symmetric and positive.
  void apply(std::span<const Element> x, std::span<Element> result) const {
    for (std::size_t e = 0; e < count_; ++e) {
      const Element& in = x[e];
      Element out = in;
      for (std::size_t d = 0; d < 3; ++d) {
        const Element& conduct = conduct_[d][e];
        for (std::size_t p = 0; p + kStrides[d] < kPoints; ++p) {
          if (p / kStrides[d] % kEdge == kEdge - 1) continue;
          const double flux = conduct[p] * (in[p + kStrides[d]] - in[p]);
          out[p] -= flux;
          out[p + kStrides[d]] += flux;
        }
      }
      for (std::size_t face = 0; face < kFaces; ++face) {
        const std::uint32_t other = neighbours_[e][face];
        if (other == kNone) continue;
        for_face(face, [&](std::size_t here, std::size_t there) { out[here] += kJump * (in[here] - x[other][there]); });
      }
      result[e] = out;
    }
  }

  void conjugate_gradients() {
    apply(heat_, applied_);
    double square = 0;
    for (std::size_t e = 0; e < count_; ++e) {
      for (std::size_t p = 0; p < kPoints; ++p) {
        direction_[e][p] = residual_[e][p] = source_[e][p] - applied_[e][p];
        square += residual_[e][p] * residual_[e][p];
      }
    }
    const double first = square;
    for (unsigned iteration = 0; iteration < kIterations; ++iteration) {
      apply(direction_, applied_);
      const double alpha = square / dot(direction_, applied_);
      for (std::size_t e = 0; e < count_; ++e) {
        for (std::size_t p = 0; p < kPoints; ++p) {
          heat_[e][p] += alpha * direction_[e][p];
          residual_[e][p] -= alpha * applied_[e][p];
        }
      }
      const double next = dot(residual_, residual_);
      const double beta = next / square;
      for (std::size_t e = 0; e < count_; ++e) {
        for (std::size_t p = 0; p < kPoints; ++p) direction_[e][p] = residual_[e][p] + beta * direction_[e][p];
      }
      square = next;
    }
    reduction_ = std::sqrt(square / first);
  }

  [[nodiscard]] double dot(std::span<const Element> a, std::span<const Element> b) const {
    double sum = 0;
    for (std::size_t e = 0; e < count_; ++e) {
      for (std::size_t p = 0; p < kPoints; ++p) sum += a[e][p] * b[e][p];
    }
    return sum;
  }

  /// Some elements change places, with all that belongs to them.
  void refine(unsigned round) {
    for (std::size_t i = 0; i < count_ / kMoved; ++i) {
      const std::size_t one = scattered(round * count_ + i) % count_;
      const std::size_t other = scattered(~(round * count_ + i)) % count_;
      for (const auto field : {heat_, source_, conduct_[0], conduct_[1], conduct_[2]}) {
        std::swap(field[place_[one]], field[place_[other]]);
      }
      std::swap(place_[one], place_[other]);
    }
    link();
  }

  unsigned rounds_;
  std::size_t edge_;  ///< of the cube, in elements
  std::size_t count_;
  std::vector<std::uint32_t> place_;  ///< of the element at each place of the cube
  std::span<Neighbours> neighbours_;
  std::span<Element> heat_;
  std::span<Element> residual_;
  std::span<Element> direction_;
  std::span<Element> applied_;
  std::span<Element> source_;
  std::array<std::span<Element>, 3> conduct_;  ///< by direction
  double reduction_ = 1;                       ///< of the residual, in the last round
};

}  // namespace

std::unique_ptr<Kernel> make_ua(Memory& memory, KernelSize size) {
  return std::make_unique<Unstructured>(memory, size);
}

}  // namespace farside::bench
