#include "kv/protocol/server.h"

#include <algorithm>

namespace farside::kv {

void Server::serve_until(const std::function<bool()>& ended) {
  Duration pause{};
  while (!ended()) {
    const bool served = inbox_.serve(answer_, pause);
    bool more_to_do = false;
    for (const Chore& chore : chores_) more_to_do = chore() || more_to_do;
    pause = served ? kFirstPause : std::clamp(2 * pause, kFirstPause, inbox_.longest_pause());
    if (more_to_do) pause = {};
  }
}

}  // namespace farside::kv
