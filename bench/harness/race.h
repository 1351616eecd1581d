// race.h — ours and its baselines, measured in turns.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace farside::bench {

/// Measures each contender once a repetition, in an order drawn anew, the same in every run. Returns what they gave, by
/// contender, then by repetition. What disturbs the machine for longer than a turn so disturbs them all, and what a
/// turn leaves to the next one, in caches or as work put off, falls on each of them.
template <class Sample>
std::vector<std::vector<Sample>> race(unsigned repetitions, std::span<const std::function<Sample()>> contenders) {
  std::vector<std::vector<Sample>> samples(contenders.size());
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 dice;  // NOLINT(cert-msc51-cpp): the same every time
  for (unsigned repetition = 0; repetition < repetitions; ++repetition) {
    std::ranges::shuffle(order, dice);
    for (const std::size_t i : order) samples[i].push_back(contenders[i]());
  }
  return samples;
}

}  // namespace farside::bench
