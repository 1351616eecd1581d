#include "kv/client/homes.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

namespace {
constexpr int kMaxDoublings = 7;  // of the time that a standby has to answer
}  // namespace

Homes::Homes(Fabric& fabric, Channel& channel, std::vector<Home> homes, AskStandby how_is_standby,
             const ReplicaRules& rules, Duration first_slice)
    : fabric_(fabric),
      channel_(channel),
      homes_(std::move(homes)),
      how_is_standby_(std::move(how_is_standby)),
      rules_(rules),
      first_slice_(first_slice),
      moves_(homes_.size()),
      leases_(homes_.size()) {
  for (const Home& home : homes_) memories_.push_back(home.primary.memory);
  follow();
}

// A server that has been deposed says the epoch in which it served.
bool Homes::is_moved(ServerNumber partition) const {
  const auto& [primary, standby, lease, is_abandoned] = homes_[partition];
  return !is_abandoned && standby && std::max(standby->epoch_when_asked, standby->told.load()) > primary.epoch;
}

bool Homes::will_move(ServerNumber partition) const { return is_lost(partition) && has_standby(partition); }

void Homes::abandon(ServerNumber partition) { homes_[partition].is_abandoned = true; }

bool Homes::has_standby(ServerNumber partition) const {
  if (homes_[partition].is_abandoned) return false;
  const StandbyIs standby = how_is_standby_(partition);
  return standby == StandbyIs::joined || standby == StandbyIs::joining;
}

bool Homes::may_move(ServerNumber partition) const {
  const Lease& lease = leases_[partition];
  const bool is_alone = lease.is_alone && fabric_.now() < *lease.until;
  return !is_alone && has_standby(partition);
}

bool Homes::is_trusted(ServerNumber partition, Deadline deadline) {
  if (is_moved(partition)) return true;  // of the primary nothing is taken any more
  if (homes_[partition].lease) return has_lease(partition, deadline);
  const StandbyIs standby = how_is_standby_(partition);
  return standby == StandbyIs::joined || standby == StandbyIs::gone;
}

// A standby that answers 0 did not serve when it was asked, so not before either; and it waits for the lease that
// begins then. Another one that the primary is given is full when such a lease is over, as the primary named this one.
// So is one that a primary which is alone is given.
bool Homes::has_lease(ServerNumber partition, Deadline deadline) {
  Home& home = homes_[partition];
  Lease lease = leases_[partition];
  const Time now = fabric_.now();
  if (lease.until && now < *lease.until) return true;
  const bool asks_standby = home.standby && !lease.is_alone;
  const auto epoch = asks_standby ? ask(*home.standby->epoch, partition, deadline) : std::nullopt;
  if (epoch && *epoch > home.primary.epoch) {
    home.standby->epoch_when_asked = *epoch;
    return false;
  }
  const auto named = ask(*home.primary.alone, partition, deadline);
  const bool is_named = home.standby && named == home.standby->identity;
  lease.is_alone = named == kIsAlone;
  if (lease.is_alone || (is_named && epoch == 0)) lease.until = now + *home.lease;
  lease.doublings = named && (epoch || !asks_standby) ? 0 : std::min(lease.doublings + 1, kMaxDoublings);
  leases_[partition] = lease;
  const bool has_lease = lease.until && now < *lease.until;
  if (named && !has_lease) (void)how_is_standby_(partition);  // perhaps another one, which is joined then
  return has_lease || !rules_.looks_at_the_lease;
}

// Half of the time that is left, so that there is some to ask the other server. With too short a limit no request is
// answered on a slow network.
std::optional<std::uint64_t> Homes::ask(RemoteWord<ControlWord> word, ServerNumber partition, Deadline deadline) {
  const Duration first = *homes_[partition].lease / 4;
  const Duration slice = std::min(first * (1 << leases_[partition].doublings), (deadline.at - fabric_.now()) / 2);
  const Result<std::uint64_t> said = channel_.load(word, fabric_.in(slice));
  return said.done() ? std::optional(said.value) : std::nullopt;
}

void Homes::set_standby(ServerNumber partition, const Standby& standby) {
  Home& home = homes_[partition];
  assert_that(standby.promoted.seat != home.primary.seat, "a partition's two servers have two seats");
  home.standby = standby;
  leases_[partition] = {};
}

void Homes::follow() {
  for (ServerNumber partition = 0; partition < homes_.size(); ++partition) {
    if (!is_moved(partition)) continue;
    Home& home = homes_[partition];
    const std::uint64_t epoch = std::max(home.standby->epoch_when_asked, home.standby->told.load());
    home.primary = home.standby->promoted;
    home.primary.epoch = epoch;
    home.standby.reset();
    memories_[partition] = home.primary.memory;
    leases_[partition] = {};
    ++moves_[partition];
    ++all_moves_;
  }
}

// A primary that does not answer may be dead by now.
Outcome HomedSource::find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) {
  (void)catch_up();  // with the places that were remembered before requests have followed
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
    fabric_.sleep(outcome == Outcome::done ? time_limits::kReadAgain : time_limits::kLookForStandby);
  }
}

bool HomedSource::follow() {
  homes_.follow();
  return catch_up();
}

bool HomedSource::catch_up() {
  if (std::exchange(moves_, homes_.moves()) == homes_.moves()) return false;
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
