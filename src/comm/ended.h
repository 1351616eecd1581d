// ended.h — how a wait for several ranks ended.
//
// Stands alone: barriers, broadcasts and vector wait in the same way.
#pragma once

#include <algorithm>
#include <span>

#include "farside/comm/comm.h"

namespace farside {

/// With peer_lost it names the first of `ranks` that is.
[[nodiscard]] inline Ended ended_among(Team& team, std::span<const Rank> ranks, Outcome outcome) {
  if (outcome != Outcome::peer_lost) return {outcome, {}};
  const auto lost = std::ranges::find_if(ranks, [&team](Rank rank) { return !team.alive(rank); });
  return {outcome, lost == ranks.end() ? std::nullopt : std::optional(*lost)};
}

}  // namespace farside
