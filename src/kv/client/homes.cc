#include "kv/client/homes.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
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
      leases_(homes_.size()) {
  for (const Home& home : homes_) memories_.push_back(home.primary);
  (void)follow();
}

bool Homes::will_move(ServerNumber partition) const { return is_lost(partition) && has_standby(partition); }

bool Homes::has_standby(ServerNumber partition) const {
  const StandbyIs standby = how_is_standby_(partition);
  return standby == StandbyIs::joined || standby == StandbyIs::joining;
}

bool Homes::may_move(ServerNumber partition) const {
  const Lease& lease = leases_[partition];
  const bool is_alone = lease.is_alone && fabric_.now() < *lease.until;
  return !followed_[partition] && !is_alone && has_standby(partition);
}

bool Homes::has_moved(ServerNumber partition) const {
  if (followed_[partition]) return true;
  if (!is_moved(partition)) return false;
  const StandbyIs standby = how_is_standby_(partition);
  return standby == StandbyIs::joined || standby == StandbyIs::gone;
}

bool Homes::is_trusted(ServerNumber partition, Deadline deadline) {
  if (is_moved(partition)) return has_moved(partition);
  if (homes_[partition].lease_source) return has_lease(partition, deadline);
  const StandbyIs standby = how_is_standby_(partition);
  return standby == StandbyIs::joined || standby == StandbyIs::gone;
}

// A standby that answers 0 did not serve when it was asked, so not before either; and it waits for the lease that
// begins then. So does a primary that is alone before it has a standby again which may be promoted.
bool Homes::has_lease(ServerNumber partition, Deadline deadline) {
  const Time now = fabric_.now();
  Lease& mine = leases_[partition];
  if (mine.until && now < *mine.until) return true;
  const Duration lease = homes_[partition].lease_source->lease;
  if (mine.is_alone) mine.is_alone = ask_whether_alone(partition, deadline);
  if (!mine.is_alone) {
    (void)how_is_standby_(partition);  // it may be another one, which is joined then
    if (const auto epoch = ask_epoch(partition, deadline)) {
      homes_[partition].epoch_when_asked = *epoch;
      mine.until = now + lease;
      return *epoch == 0;
    }
    mine.is_alone = ask_whether_alone(partition, deadline);
  }
  if (mine.is_alone) mine.until = now + lease;
  return mine.is_alone || !rules_.looks_at_the_lease;
}

// Half of the time that is left, so that there is some to ask the primary. With too short a limit no request is
// answered on a slow network.
std::optional<std::uint64_t> Homes::ask_epoch(ServerNumber partition, Deadline deadline) {
  const auto& source = *homes_[partition].lease_source;
  int& doublings = leases_[partition].doublings;
  const Time now = fabric_.now();
  const Duration patience = std::min((source.lease / 4) * (1 << doublings), (deadline.at - now) / 2);
  const Result<std::uint64_t> answer = channel_.load(source.epoch, {now + patience});
  doublings = answer.done() ? 0 : std::min(doublings + 1, kMaxDoublings);
  return answer.done() ? std::optional(answer.value) : std::nullopt;
}

bool Homes::ask_whether_alone(ServerNumber partition, Deadline deadline) {
  const auto& source = *homes_[partition].lease_source;
  const Result<std::uint64_t> said =
      channel_.load(source.alone, {std::min(deadline.at, fabric_.in(source.lease / 4).at)});
  return said.done() && said.value == kIsAlone;
}

void Homes::set_standby(ServerNumber partition, const ServerMemory& memory, std::uint64_t epoch_when_joined,
                        std::optional<RemoteWord<ControlWord>> epoch) {
  Home& home = homes_[partition];
  assert_that(!followed_[partition], "a partition that is served by its standby gets no other one");
  home.standby = memory;
  home.epoch_when_asked = epoch_when_joined;
  if (home.lease_source && epoch) home.lease_source->epoch = *epoch;
  leases_[partition] = {};
}

bool Homes::follow() {
  bool any = false;
  for (ServerNumber partition = 0; partition < homes_.size(); ++partition) {
    if (followed_[partition] || !has_moved(partition)) continue;
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
