// farside's arrays, on the fabric that FARSIDE_FABRIC names: a job of `farside run`. With the argument "strict",
// without the relaxation.
#include <optional>
#include <string>

#include "farside/arrays/arrays.h"

#include "bench/harness/contend.h"
#include "bench/harness/work.h"

namespace farside::bench {
namespace {

using namespace arrays;  // operators and functions

/// What is computed with, of the size that was last asked for.
template <std::size_t Dimensions>
struct Operands {
  Operands(World& world, const Extents<Dimensions>& extents, const Distribution<Dimensions>& distribution)
      : a(world, extents, distribution), b(world, extents, distribution), c(world, extents, distribution) {}
  Array<double, Dimensions> a;
  Array<double, Dimensions> b;
  Array<double, Dimensions> c;
};

template <std::size_t Dimensions>
Operands<Dimensions>& sized(std::optional<Operands<Dimensions>>& operands, World& world, std::uint64_t extent,
                            const Distribution<Dimensions>& distribution = {}) {
  Extents<Dimensions> extents;
  extents.fill(static_cast<std::int64_t>(extent));
  if (!operands || operands->a.extents() != extents) operands.emplace(world, extents, distribution);
  return *operands;
}

void run(bool strict) {
  const auto team = team::join_team();
  // Rank 0 may be silent for as long as the other contenders take.
  World world(*team, {.strict = strict, .time_out = std::chrono::hours(1)});
  std::optional<Operands<1>> lines;
  std::optional<Operands<2>> squares;
  std::optional<Operands<2>> grids;
  const auto grid = [&](std::uint64_t size) -> Operands<2>& { return sized<2>(grids, world, size, {.halo = {1, 1}}); };
  const auto mean_around = [](const Array<double, 2>& u) {
    return 0.25 * (neighbour(u, {-1, 0}) + neighbour(u, {1, 0}) + neighbour(u, {0, -1}) + neighbour(u, {0, 1}));
  };

  Work work;
  work.together("cshift", [&](std::uint64_t size, std::uint64_t rounds) {
    Array<double, 2>& a = sized<2>(squares, world, size, {.parts = {0, 1}}).a;
    for (; rounds != 0; --rounds) a = cshift(a, 0, 1);
  });
  work.together("laplace", [&](std::uint64_t size, std::uint64_t rounds) {
    auto& [u, next, unused] = grid(size);
    for (; rounds != 0; --rounds, std::swap(u, next)) assign_overlapped(next, mean_around(u), u);
  });
  work.together("laplace-waiting", [&](std::uint64_t size, std::uint64_t rounds) {
    auto& [u, next, unused] = grid(size);
    for (; rounds != 0; --rounds, std::swap(u, next)) {
      exchange(u);
      next = mean_around(u);
    }
  });
  work.together("expression", [&](std::uint64_t count, std::uint64_t rounds) {
    auto& [a, b, c] = sized<1>(lines, world, count);
    for (; rounds != 0; --rounds) a = 0.25 * (b + c);
  });
  work.together("sum", [&](std::uint64_t count, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) (void)sum(sized<1>(lines, world, count).a);
  });

  const auto share = [&world](const Command& command) {
    return world.all_reduce(command, [](const Command& first, const Command& /*other*/) { return first; });
  };
  if (world.rank() == 0) {
    work.answer_questions([&](const Command& command) { (void)share(command); });
  } else {
    while (work.obey(share({}))) {
    }
  }
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::contend([&] { farside::bench::run(argc == 2 && std::string(argv[1]) == "strict"); });
}
