#include "kv/client/homes.h"

#include <algorithm>
#include <utility>

#include "kv/protocol/time_limits.h"

namespace farside::kv {

namespace {
constexpr Duration kLook = std::chrono::microseconds(500);  // while a standby takes over
constexpr int kMaxDoublings = 5;                            // of the time that a standby has to answer
}  // namespace

Homes::Homes(Fabric& fabric, Channel& channel, std::vector<Home> homes, AskStandby how_is_standby,
             const ReplicaRules& rules, Duration first_slice)
    : fabric_(fabric),
      channel_(channel),
      homes_(std::move(homes)),
      how_is_standby_(std::move(how_is_standby)),
      rules_(rules),
      first_slice_(first_slice),
      followed_(homes_.size()),
      leases_(homes_.size()),
      alone_(homes_.size()) {
  for (const Home& home : homes_) memories_.push_back(home.primary);
  (void)follow();
}

bool Homes::will_move(ServerNumber partition) const {
  return is_lost(partition) && how_is_standby_(partition) == StandbyIs::joined;
}

bool Homes::may_move(ServerNumber partition) const {
  return !is_moved(partition) && !alone_[partition] && how_is_standby_(partition) == StandbyIs::joined;
}

bool Homes::is_trusted(ServerNumber partition, Deadline deadline) {
  if (is_moved(partition)) return true;
  return homes_[partition].lease_source ? has_lease(partition, deadline)
                                        : how_is_standby_(partition) != StandbyIs::away;
}

// A standby that answers 0 did not serve when it was asked, so not before either; and it waits for the lease that
// begins then. A primary that is alone stays so: no standby is promoted in its place.
bool Homes::has_lease(ServerNumber partition, Deadline deadline) {
  const Time now = fabric_.now();
  auto& [until, doublings] = leases_[partition];
  if (alone_[partition] || (until && now < *until)) return true;
  const auto& [epoch, alone, lease] = *homes_[partition].lease_source;
  // Half of the time that is left, so that there is some to ask the primary.
  const Duration patience = std::min((lease / 4) * (1 << doublings), (deadline.at - now) / 2);
  const Result<std::uint64_t> answer = channel_.load(epoch, {now + patience});
  if (answer.done()) {
    homes_[partition].epoch_when_asked = answer.value;
    until = now + lease;
    doublings = 0;
    return answer.value == 0;
  }
  // With too short a limit no request is answered on a slow network.
  doublings = std::min(doublings + 1, kMaxDoublings);
  const Result<std::uint64_t> said = channel_.load(alone, {std::min(deadline.at, fabric_.in(lease / 4).at)});
  alone_[partition] = said.done() && said.value != 0;
  return alone_[partition] || !rules_.looks_at_the_lease;
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

// A primary that does not answer may be dead by now.
Outcome HomedSource::find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) {
  for (Duration slice = homes_.first_slice();;) {
    const Deadline until{std::min(deadline.at, fabric_.in(slice).at)};
    const Outcome outcome = inner_.find(searches, candidates, until);
    const bool trusted = is_trusted(searches, deadline);
    const bool looks = homes_.rules().looks_at_the_epoch || outcome != Outcome::done;
    if (looks && follow()) continue;
    if (outcome == Outcome::done && trusted) return outcome;
    if (fabric_.now() >= deadline.at) return Outcome::timed_out;
    if (outcome == Outcome::timed_out || outcome == Outcome::link_lost) {
      slice *= 2;
      continue;
    }
    if (!is_worth_waiting(searches, outcome, deadline)) {
      if (follow()) continue;  // the standby has told it since it was asked above
      return Outcome::peer_lost;
    }
    fabric_.sleep(outcome == Outcome::done ? time_limits::kReadAgain : kLook);
  }
}

bool HomedSource::follow() {
  if (!homes_.follow()) return false;
  inner_.forget_places();
  return true;
}

// A result that may not be taken now may be when it is looked for again, or the standby will serve. (A primary whose
// standby is away will say whether that is dead.)
bool HomedSource::is_worth_waiting(std::span<Search* const> searches, Outcome outcome, Deadline deadline) {
  const auto partition_of = [this](const Search* search) { return server_of(search->id, homes_.partitions()); };
  if (outcome == Outcome::done) {
    return std::ranges::all_of(searches, [&](const Search* search) {
      return !homes_.is_lost(partition_of(search)) || homes_.may_move(partition_of(search));
    });
  }
  return std::ranges::any_of(searches, [&](const Search* search) {
    const ServerNumber partition = partition_of(search);
    return homes_.may_move(partition) || (!homes_.is_lost(partition) && !homes_.is_trusted(partition, deadline));
  });
}

bool HomedSource::is_trusted(std::span<Search* const> searches, Deadline deadline) {
  return std::ranges::all_of(searches, [&](const Search* search) {
    return homes_.is_trusted(server_of(search->id, homes_.partitions()), deadline);
  });
}

}  // namespace farside::kv
