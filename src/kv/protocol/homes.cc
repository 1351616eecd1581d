#include "kv/protocol/homes.h"

#include <algorithm>
#include <utility>

namespace farside::kv {

namespace {
constexpr Duration kLook = std::chrono::microseconds(500);  // while a standby takes over
}

Homes::Homes(const Fabric& fabric, std::vector<Home> homes, AskStandby how_is_standby, const ReplicaRules& rules)
    : fabric_(fabric),
      homes_(std::move(homes)),
      how_is_standby_(std::move(how_is_standby)),
      rules_(rules),
      followed_(homes_.size()) {
  for (const Home& home : homes_) memories_.push_back(home.primary);
  (void)follow();
}

bool Homes::will_move(ServerNumber partition) const {
  return is_lost(partition) && how_is_standby_(partition) == StandbyIs::joined;
}

bool Homes::may_move(ServerNumber partition) const {
  return !is_moved(partition) && how_is_standby_(partition) == StandbyIs::joined;
}

bool Homes::is_trusted(ServerNumber partition) const {
  return is_moved(partition) || how_is_standby_(partition) != StandbyIs::away;
}

bool Homes::follow() {
  bool any = false;
  for (ServerNumber partition = 0; partition < homes_.size(); ++partition) {
    if (followed_[partition] || !is_moved(partition)) continue;
    memories_[partition] = homes_[partition].standby;
    followed_[partition] = any = true;
  }
  return any;
}

Outcome HomedSource::find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) {
  for (;;) {
    const Outcome outcome = inner_.find(searches, candidates, deadline);
    const bool looks = homes_.rules().looks_at_the_epoch || outcome != Outcome::done;
    if (looks && homes_.follow()) {
      inner_.forget_places();
      continue;
    }
    if (!is_worth_waiting(searches, outcome)) return is_trusted(searches) ? outcome : Outcome::peer_lost;
    if (fabric_.now() >= deadline.at) return Outcome::timed_out;
    fabric_.sleep(kLook);
  }
}

bool HomedSource::is_worth_waiting(std::span<Search* const> searches, Outcome outcome) const {
  return std::ranges::any_of(searches, [&](const Search* search) {
    const ServerNumber partition = server_of(search->id, homes_.partitions());
    if (outcome == Outcome::peer_lost && homes_.may_move(partition)) return true;
    return !homes_.is_lost(partition) && !homes_.is_trusted(partition);  // it will say whether its standby is dead
  });
}

bool HomedSource::is_trusted(std::span<Search* const> searches) const {
  return std::ranges::all_of(
      searches, [this](const Search* search) { return homes_.is_trusted(server_of(search->id, homes_.partitions())); });
}

}  // namespace farside::kv
