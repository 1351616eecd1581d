// status.h — the status of a wait for several ranks.
//
// Stands alone: barriers, broadcasts and arrays wait in the same way.
#pragma once

#include <algorithm>
#include <span>

#include "farside/comm/comm.h"

namespace farside::comm {

/// With peer_lost it names the first of `ranks` that is.
[[nodiscard]] inline Status status_among(team::Team& team, std::span<const team::Rank> ranks, Outcome outcome) {
  if (outcome != Outcome::peer_lost) return {outcome, {}};
  const auto lost = std::ranges::find_if(ranks, [&team](team::Rank rank) { return !team.alive(rank); });
  return {outcome, lost == ranks.end() ? std::nullopt : std::optional(*lost)};
}

}  // namespace farside::comm
