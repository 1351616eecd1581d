#include "kv/server/server.h"

#include <algorithm>

namespace farside::kv {

void Server::serve_until(const std::function<bool()>& ended) {
  Duration pause{};
  while (!ended()) {
    const Duration longest = inbox_.longest_pause();
    const Duration first = longest / kFirstPauseIn;
    const bool served = inbox_.serve(answer_, pause);
    bool more_to_do = false;
    for (const Chore& chore : chores_) more_to_do = chore() || more_to_do;
    pause = served ? first : std::clamp(2 * pause, first, longest);
    if (more_to_do) pause = {};
  }
}

}  // namespace farside::kv
