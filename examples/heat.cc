// heat.cc — heat that spreads through a cube and out of it: a stencil of seven points, in three dimensions.
//
//   farside run -n 4 -- build/release/bin/example_heat
//
// Each rank has a block of the cube, and around it ghost cells for what its neighbours have there. A step begins to
// fetch these, computes what needs none of them, and then the rest.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "farside/arrays/ghost.h"
#include "farside/arrays/move.h"

namespace {

using namespace farside;

constexpr std::int64_t kSize = 96;  // of each edge
constexpr int kSteps = 60;
constexpr double kRate = 0.1;  // of the difference to each neighbour that is made up for in a step

double at_the_start(std::int64_t i, std::int64_t j, std::int64_t k) {
  return i + j + k < kSize ? 1.0 : 0.0;  // one corner is hot
}

// All ranks together; the result is there at each of them.
std::vector<double> spread_together(team::Team& team) {
  arrays::World world(team);
  using Heat = arrays::Array<double, 3>;
  Heat now(world, {kSize, kSize, kSize}, {.halo = {1, 1, 1}});  // ghost cells beyond the cube stay 0: it is cold there
  Heat next = now;
  now.set_each(at_the_start);
  for (int step = 0; step < kSteps; ++step) {
    const auto around = arrays::neighbour(now, {-1, 0, 0}) + arrays::neighbour(now, {1, 0, 0}) +
                        arrays::neighbour(now, {0, -1, 0}) + arrays::neighbour(now, {0, 1, 0}) +
                        arrays::neighbour(now, {0, 0, -1}) + arrays::neighbour(now, {0, 0, 1});
    arrays::assign_overlapped(next, now + kRate * (around - 6.0 * now), now);
    std::swap(now, next);
  }
  return arrays::gather_all(now);
}

// The same by one process, to compare with.
std::vector<double> spread_alone() {
  constexpr std::int64_t kWidth = kSize + 2;
  constexpr std::array<std::int64_t, 3> kStride = {kWidth * kWidth, kWidth, 1};
  const auto for_each = [](auto visit) {
    for (std::int64_t i = 0; i < kSize; ++i) {
      for (std::int64_t j = 0; j < kSize; ++j) {
        for (std::int64_t k = 0; k < kSize; ++k) visit(((i + 1) * kWidth + j + 1) * kWidth + k + 1, i, j, k);
      }
    }
  };
  std::vector<double> now(kWidth * kWidth * kWidth);
  for_each([&](auto at, auto i, auto j, auto k) { now[at] = at_the_start(i, j, k); });
  std::vector<double> next = now;
  for (int step = 0; step < kSteps; ++step) {
    for_each([&](auto at, auto, auto, auto) {
      const double around = now[at - kStride[0]] + now[at + kStride[0]] + now[at - kStride[1]] + now[at + kStride[1]] +
                            now[at - kStride[2]] + now[at + kStride[2]];
      next[at] = now[at] + kRate * (around - 6.0 * now[at]);
    });
    std::swap(now, next);
  }
  std::vector<double> result;
  for_each([&](auto at, auto, auto, auto) { result.push_back(now[at]); });
  return result;
}

}  // namespace

int main() {
  try {
    const auto team = team::join_team();
    const std::vector<double> heat = spread_together(*team);
    if (team->rank() != 0) return EXIT_SUCCESS;

    const std::vector<double> expected = spread_alone();
    double difference = 0;
    double left = 0;
    for (std::size_t cell = 0; cell < heat.size(); ++cell) {
      difference = std::fmax(difference, std::fabs(heat[cell] - expected[cell]));
      left += heat[cell];
    }
    std::printf("%u ranks, %d steps: heat left %.6g, largest difference to one process alone %g\n", team->size(),
                kSteps, left, difference);
    return difference == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
