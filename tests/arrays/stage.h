// stage.h — what a member of a fleet has at hand in arrays' tests, and the values they compute with.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "farside/arrays/array.h"
#include "farside/base/mix.h"

#include "tests/support/fleet_team.h"
#include "tests/support/mesh.h"
#include "tests/support/reduced.h"

namespace farside::test {

using arrays::Array;
using arrays::Box;
using arrays::Distribution;
using arrays::Extents;
using arrays::Index;
using arrays::World;
using arrays::WorldOptions;

/// The thread sanitizer cannot see how oneTBB orders what its threads do.
#ifdef __SANITIZE_THREAD__
inline constexpr unsigned kThreads = 1;
#else
inline constexpr unsigned kThreads = 2;
#endif

/// Little memory may be held back, and threads are used although ranks are many.
inline WorldOptions small_world(bool strict = false) {
  return {.threads = kThreads, .strict = strict, .held_bytes = 1U << 20U};
}

/// The value at a global index, a different one for each `seed`: what every reference is computed from.
template <class... Indices>
double value(std::uint64_t seed, Indices... indices) {
  std::uint64_t hash = mix(seed + kMixStep);
  ((hash = mix(hash ^ static_cast<std::uint64_t>(indices + 1000))), ...);
  return static_cast<double>(hash % 1999) - 999;
}

/// The same random shapes at all ranks.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(mix(seed_ += kMixStep) % static_cast<std::uint64_t>(most - least + 1));
  }
  template <std::size_t Dimensions>
  Extents<Dimensions> extents(std::int64_t most) {
    Extents<Dimensions> extents;
    for (auto& extent : extents) extent = between(0, most);
    return extents;
  }
  /// As many parts as `ranks`, cut in any way.
  template <std::size_t Dimensions>
  Distribution<Dimensions> distribution(std::int64_t ranks, std::int64_t most_halo = 0) {
    Distribution<Dimensions> given;
    for (std::size_t axis = 0; axis + 1 < Dimensions; ++axis) {
      std::int64_t parts = between(1, ranks);
      while (ranks % parts != 0) --parts;
      given.parts[axis] = parts;
      ranks /= parts;
    }
    given.parts[Dimensions - 1] = ranks;
    for (auto& halo : given.halo) halo = between(0, most_halo);
    return given;
  }

 private:
  std::uint64_t seed_;
};

template <std::size_t Dimensions>
Array<double, Dimensions> filled(World& world, std::uint64_t seed, const Extents<Dimensions>& extents,
                                 const Distribution<Dimensions>& distribution = {}) {
  Array<double, Dimensions> array(world, extents, distribution);
  array.set_each([seed](auto... indices) { return value(seed, indices...); });
  return array;
}

/// Calls `visit` with the global index of each element of this rank.
template <class T, std::size_t Dimensions, class Visit>
void for_each_own(const Array<T, Dimensions>& array, Visit visit) {
  const Box own = array.own();
  for (std::int64_t i = own.first[0]; i < own.last[0]; ++i) {
    for (std::int64_t j = own.first[1]; j < own.last[1]; ++j) {
      for (std::int64_t k = own.first[2]; k < own.last[2]; ++k) visit(Index{i, j, k});
    }
  }
}

template <std::size_t Dimensions>
Extents<Dimensions> outer(const Index& index) {
  Extents<Dimensions> extents;
  std::copy_n(index.end() - Dimensions, Dimensions, extents.begin());
  return extents;
}

/// Each element of this rank is what `expected` says of its global index.
template <class T, std::size_t Dimensions, class Expected>
void expect_each(const Array<T, Dimensions>& array, Expected expected) {
  const Index first = array.own().first;
  for_each_own(array, [&](const Index& at) {
    const T here = array.row(at[0] - first[0], at[1] - first[1])[at[2] - first[2]];
    ASSERT_EQ(here, std::apply(expected, outer<Dimensions>(at)))
        << "at " << at[0] << ", " << at[1] << ", " << at[2] << " of " << array.layout().text();
  });
}

/// Runs `body` at each of `ranks`, in a world without the relaxation and in one with it.
inline void in_both_worlds(unsigned ranks, const std::function<void(World&)>& body) {
  Fleet fleet(ranks, [&](Member& me) {
    FleetTeam team(me);
    for (const bool strict : {true, false}) {
      World world(team, small_world(strict));
      body(world);
    }
  });
  fleet.expect_success();
}

}  // namespace farside::test
