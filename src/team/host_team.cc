#include "team/host_team.h"

#include <algorithm>
#include <string>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/file_limit.h"
#include "base/wire.h"
#include "team/time_limits.h"

namespace farside::team {

namespace {

using net::SetupClock;

constexpr std::size_t kFilesPerNeighbour = 1;   // a pidfd
constexpr std::size_t kFilesPerRemoteRank = 4;  // UCX's connections over TCP: in both directions, and of two channels
constexpr std::size_t kFilesBeside = 64;

std::uint64_t arrival_offset(Rank rank) { return std::uint64_t{rank} * sizeof(ControlWord); }

}  // namespace

std::unique_ptr<Team> join_team() { return std::make_unique<HostTeam>(bootstrap_from_environment); }

HostTeam::HostTeam(const BootstrapMaker& make_bootstrap) : HostTeam() { form(make_bootstrap); }

HostTeam::~HostTeam() {
  if (bootstrap_) bootstrap_->leave();
  loop_.stop();  // no thread looks at the members below any more
}

void HostTeam::form(const BootstrapMaker& make_bootstrap) {
  allow_many_files();
  const auto deadline = SetupClock::now() + team::time_limits::kSetup;
  const bool comes_back = join(make_bootstrap, deadline);
  exchange_cards(deadline);
  expect_descriptors();
  connect_all(deadline);
  arrivals_ = gather_region(fabric_->create_region("team arrivals", arrival_offset(size())), deadline);
  channel_ = fabric_->open_channel();
  loop_.post([this, gone = gone_ranks()] {
    for (Rank rank = 0; rank < size(); ++rank) {
      if (!gone.contains(rank)) watch_process(rank);
    }
  });
  if (comes_back) return;  // the others do not wait for it

  const Outcome outcome = barrier(fabric_->in(team::time_limits::kSetup));
  if (outcome != Outcome::done) {
    throw Error({"form", "the team", "not every rank came to the end of it: " + std::string(to_string(outcome)), ""});
  }
}

// True when the team is complete and this process takes the place of a lost one.
bool HostTeam::join(const BootstrapMaker& make_bootstrap, SetupClock::time_point deadline) {
  const auto once_joined = [this](auto act) {
    return [this, act](auto&&... told) {
      { const MutexLock lock(membership_); }  // till there is a bootstrap_
      (this->*act)(std::forward<decltype(told)>(told)...);
    };
  };
  const MutexLock lock(membership_);
  bootstrap_ = make_bootstrap(loop_,
                              {.lost = once_joined(&HostTeam::hear_of_loss),
                               .returned = once_joined(&HostTeam::take_back),
                               .coordinator_gone = once_joined(&HostTeam::lose_other_hosts),
                               .coordinator_away = [this](bool is_lost) { has_coordinator_ = !is_lost; }},
                              deadline);
  const Standing standing = bootstrap_->standing();
  gone_ = standing.lost;
  gone_.erase(rank());
  epoch_base_ = standing.epoch - standing.lost.size();
  returns_.resize(size());
  processes_.resize(size());
  notices_.resize(size());
  died_ = std::vector<std::atomic<bool>>(size());
  dead_before_ = std::vector<std::atomic<std::uint32_t>>(size());
  incarnations_.resize(size());
  out_ = std::vector<std::atomic<bool>>(size());
  own_card_ = MemberCard::of_this_process(incarnation());  // may throw; notices that wait find their places
  return standing.exchanges != 0;
}

void HostTeam::exchange_cards(SetupClock::time_point deadline) {
  const auto cards = bootstrap_->exchange("exchange cards", own_card_.encode(), deadline);
  assert_that(cards.size() == size(), "an exchange returns a part of each rank");
  const MutexLock lock(membership_);
  for (Rank rank = 0; rank < size(); ++rank) {
    cards_.push_back(MemberCard::decode(newest(kCards, rank, cards[rank])));
    own_card_.expect_compatible(cards_.back(), rank);
    incarnations_[rank] = std::max(incarnations_[rank], cards_.back().incarnation);
    const std::uint32_t first_alive = cards_.back().incarnation + (gone_.contains(rank) ? 1U : 0U);
    dead_before_[rank] = std::max(dead_before_[rank].load(), first_alive);
  }
}

// A want of descriptors in a team that runs would be taken for one thing or another: it is found out before.
void HostTeam::expect_descriptors() const {
  const MutexLock lock(membership_);
  std::size_t files = kFilesBeside;
  for (Rank rank = 0; rank < size(); ++rank) files += on_this_host(rank) ? kFilesPerNeighbour : kFilesPerRemoteRank;
  expect_files(files, "join", "a team of " + std::to_string(size()) + " ranks");
}

void HostTeam::connect_all(SetupClock::time_point deadline) {
  fabric_ = make_host_fabric({.mode = fabric_mode_from_environment(),
                              .remote_peers = !one_host(),
                              .expected_peers = size(),
                              .secret = bootstrap_->fabric_secret(deadline),
                              .network = bootstrap_->network(),
                              .warn_of_all_interfaces = is_first_on_host()});
  const auto addresses = bootstrap_->exchange("exchange addresses", fabric_->address(), deadline);
  assert_that(addresses.size() == size(), "an exchange returns a part of each rank");
  const MutexLock lock(membership_);
  for (Rank rank = 0; rank < size(); ++rank) fabric_->connect(rank, newest(kAddresses, rank, addresses[rank]));
  connected_ = true;
  for (const Rank rank : gone_) fabric_->mark_lost(rank);
}

bool HostTeam::one_host() const {
  const MutexLock lock(membership_);
  return std::ranges::all_of(cards_, [this](const auto& card) { return card.host == own_card_.host; });
}

bool HostTeam::is_first_on_host() const {
  const MutexLock lock(membership_);
  Rank first = 0;
  while (!on_this_host(first)) ++first;
  return first == rank();
}

// Returns a rank's part of an exchange: `gathered`, or what its new process gave if the rank has come back since.
const std::string& HostTeam::newest(std::size_t exchange, Rank rank, const std::string& gathered) const {
  const auto newer = newer_.find(rank);
  return newer != newer_.end() && exchange < newer->second.size() ? newer->second[exchange] : gathered;
}

std::unique_ptr<SymmetricRegion> HostTeam::allocate(const std::string& name, std::uint64_t bytes) {
  const MutexLock lock(collective_);
  return gather_region(fabric_->create_region(name, bytes), SetupClock::now() + team::time_limits::kSetup);
}

std::unique_ptr<SymmetricRegion> HostTeam::gather_region(std::unique_ptr<Region> local,
                                                         SetupClock::time_point deadline) {
  const std::string own = Encoder().text(local->name()).number(local->bytes()).text(local->handle()).take();
  const auto gathered = bootstrap_->exchange("allocate " + local->name(), own, deadline);
  assert_that(gathered.size() == size(), "an exchange returns a part of each rank");
  const MutexLock lock(membership_);
  const std::size_t exchange = kFirstRegion + regions_.size();
  regions_.emplace_back();
  std::vector<std::unique_ptr<RemoteRegion>> by_rank;
  for (Rank rank = 0; rank < size(); ++rank) {
    by_rank.push_back(attach_piece(rank, newest(exchange, rank, gathered[rank]), local->name(), local->bytes()));
    const auto newer = newer_.find(rank);  // one that came back, and may not be reached yet
    if (newer != newer_.end() && newer->second.size() == exchange) newer->second.push_back(gathered[rank]);
  }
  const auto pieces = std::make_shared<Pieces>(std::move(by_rank));
  regions_.back() = pieces;
  return std::make_unique<SymmetricRegion>(std::move(local), pieces);
}

std::unique_ptr<RemoteRegion> HostTeam::attach_piece(Rank rank, const std::string& piece, const std::string& name,
                                                     std::uint64_t bytes) {
  const std::string whose = "the region of " + named(rank);
  Decoder in(piece, whose);
  const std::string its_name = in.text();
  const auto its_bytes = in.number<std::uint64_t>();
  in.expect(its_name == name && its_bytes == bytes, "it allocates " + its_name + " of " + std::to_string(its_bytes) +
                                                        " bytes where this rank allocates " + name + " of " +
                                                        std::to_string(bytes));
  const std::string handle = in.text();
  in.expect_end();
  if (gone_.contains(rank)) return std::make_unique<RemoteRegion>(name, rank, bytes, nullptr, nullptr);
  return fabric_->attach(rank, handle);
}

// Each rank tells every rank that it has arrived, and goes only when all can see it. No rank passes a message on, so a
// rank that arrived and then left has cost the others nothing: only a rank that will never arrive ends the barrier with
// peer_lost. Marks of another epoch do not count, so a barrier has either the old process of a rank or the new one in
// it, and those that a loss or a return finds in a barrier leave it. One that timed out is the same barrier when it is
// called again.
Outcome HostTeam::barrier(Deadline deadline) {
  const MutexLock lock(collective_);
  mark_ = mark_.next(static_cast<std::uint16_t>(epoch()), std::exchange(passed_, false));
  const std::vector<std::uint32_t> returns_before = returns();
  for (Rank step = 1; step <= size(); ++step) {
    const Rank rank = (this->rank() + step) % size();  // each begins at another, so that no rank is told by all at once
    const auto word = arrivals_->of(rank).word<ControlWord>(arrival_offset(this->rank()));
    Outcome told = Outcome::link_lost;
    while (told == Outcome::link_lost) told = channel_->write_signal(word, mark_.word(), deadline);
    if (told == Outcome::timed_out) return told;
  }
  for (Rank step = 1; step <= size(); ++step) {
    const Rank rank = (this->rank() + step) % size();
    const auto word = arrivals_->of(rank).word<ControlWord>(arrival_offset(this->rank()));
    Outcome seen = channel_->flush(rank, deadline);
    while (seen == Outcome::link_lost) {  // the mark may be lost with the link
      (void)channel_->write_signal(word, mark_.word(), deadline);
      seen = channel_->flush(rank, deadline);
    }
    if (seen == Outcome::timed_out) return seen;
  }
  for (std::vector<Rank> awaited = missing(); !awaited.empty(); awaited = missing()) {
    const auto word = arrivals_->local().word<ControlWord>(arrival_offset(awaited.front()));
    const auto has_moved = [own = mark_](std::uint64_t now) {
      const auto theirs = BarrierMark::from_word(now);
      return theirs.has_arrived_at(own) || theirs.is_of_later_epoch_than(own);
    };
    const Outcome outcome = channel_->wait_until(arrivals_->local(), word, has_moved, deadline, awaited);
    if (outcome == Outcome::timed_out) return outcome;
    // The mark of a rank is read after its death was seen: the rank may have stored it before it died.
    const auto never_comes = [&](Rank rank) REQUIRES(collective_) {
      // In this order, and anew for each: a rank that comes back between the two looks is seen by the second.
      const bool gone = fabric_->lost(rank) || returns()[rank] != returns_before[rank];
      return (gone || mark_of(rank).is_of_later_epoch_than(mark_)) && !mark_of(rank).has_arrived_at(mark_);
    };
    if (std::ranges::any_of(awaited, never_comes)) return Outcome::peer_lost;
  }
  channel_->local_fence();
  passed_ = true;
  return Outcome::done;
}

BarrierMark HostTeam::mark_of(Rank rank) const {
  return BarrierMark::from_word(arrivals_->local().word<ControlWord>(arrival_offset(rank)).load());
}

std::vector<Rank> HostTeam::missing() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (!mark_of(rank).has_arrived_at(mark_)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<std::uint32_t> HostTeam::returns() const {
  const MutexLock lock(membership_);
  return returns_;
}

// Returns the losses and returns so far; equal on all ranks that know of the same. A caller that sees one, through the
// team or the fabric, sees the epoch that it began. (A rank that has come back was lost before: so a return counts for
// two, less the loss.)
std::uint64_t HostTeam::epoch() const {
  const MutexLock lock(membership_);
  std::uint64_t changes = epoch_base_;
  for (Rank rank = 0; rank < size(); ++rank) changes += 2 * returns_[rank] + (fabric_->lost(rank) ? 1 : 0);
  return changes;
}

}  // namespace farside::team
