// race.h — ours and its baselines, measured in turns.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace farside::bench {

/// Measures each contender once a repetition, in turn: A B C, A B C, ... Returns what they gave, by contender, then
/// by repetition. What disturbs the machine for longer than a turn so disturbs them all.
template <class Sample>
std::vector<std::vector<Sample>> race(unsigned repetitions, std::span<const std::function<Sample()>> contenders) {
  std::vector<std::vector<Sample>> samples(contenders.size());
  for (unsigned repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t i = 0; i < contenders.size(); ++i) samples[i].push_back(contenders[i]());
  }
  return samples;
}

}  // namespace farside::bench
