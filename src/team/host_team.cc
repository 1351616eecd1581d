#include "team/host_team.h"

#include <algorithm>
#include <string>

#include <sys/epoll.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/wire.h"

namespace farside {

namespace {

constexpr auto kSetupLimit = std::chrono::seconds(30);
constexpr auto kRevokeLimit = std::chrono::seconds(1);  // less than kSilenceLimit: the service thread waits

std::uint64_t arrival_offset(Rank rank) { return std::uint64_t{rank} * sizeof(ControlWord); }

std::string named(Rank rank) { return "rank " + std::to_string(rank); }

}  // namespace

std::unique_ptr<Team> join_team() { return std::make_unique<HostTeam>(bootstrap_from_environment); }

HostTeam::HostTeam(const BootstrapMaker& make_bootstrap) : HostTeam() { form(make_bootstrap); }

HostTeam::~HostTeam() {
  if (bootstrap_) bootstrap_->leave();
  loop_.stop();  // nobody looks at the members below any more
}

void HostTeam::form(const BootstrapMaker& make_bootstrap) {
  const auto deadline = SetupClock::now() + kSetupLimit;
  bootstrap_ = make_bootstrap(
      loop_,
      {.lost = [this](Rank rank, Loss loss) { lose(rank, loss); }, .coordinator_gone = [this] { lose_other_hosts(); }},
      deadline);
  exchange_cards(deadline);
  connect_all(deadline);
  arrivals_ = gather_region(fabric_->create_region("team arrivals", arrival_offset(size())), deadline);
  channel_ = fabric_->open_channel();
  watch_processes();

  const Outcome outcome = barrier(fabric_->in(kSetupLimit));
  if (outcome != Outcome::done) {
    throw Error({"form", "the team", "not every rank came to the end of it: " + std::string(to_string(outcome)), ""});
  }
}

void HostTeam::exchange_cards(SetupClock::time_point deadline) {
  const MemberCard own = MemberCard::of_this_process();
  for (const std::string& card : bootstrap_->exchange("exchange cards", own.encode(), deadline)) {
    const auto rank = static_cast<Rank>(cards_.size());
    cards_.push_back(MemberCard::decode(card));
    own.expect_compatible(cards_.back(), rank);
  }
}

void HostTeam::connect_all(SetupClock::time_point deadline) {
  const bool one_host = std::ranges::all_of(cards_, [this](const auto& card) { return card.host == own_card().host; });
  fabric_ = make_host_fabric({.mode = own_card().mode, .remote_peers = !one_host});
  const auto addresses = bootstrap_->exchange("exchange addresses", fabric_->address(), deadline);
  for (Rank rank = 0; rank < size(); ++rank) fabric_->connect(rank, addresses[rank]);

  const std::lock_guard lock(membership_);
  connected_ = true;
  for (const Rank rank : gone_) fabric_->mark_lost(rank);
}

std::unique_ptr<SymmetricRegion> HostTeam::allocate(const std::string& name, std::uint64_t bytes) {
  const std::lock_guard lock(collective_);
  return gather_region(fabric_->create_region(name, bytes), SetupClock::now() + kSetupLimit);
}

std::unique_ptr<SymmetricRegion> HostTeam::gather_region(std::unique_ptr<Region> local,
                                                         SetupClock::time_point deadline) {
  const std::string piece = Encoder().text(local->name()).number(local->bytes()).text(local->handle()).take();
  const auto pieces = bootstrap_->exchange("allocate " + local->name(), piece, deadline);
  std::vector<std::unique_ptr<RemoteRegion>> remotes;
  for (Rank rank = 0; rank < size(); ++rank) {
    const std::string whose = "the region of " + named(rank);
    Decoder in(pieces[rank], whose);
    const std::string name = in.text();
    const auto bytes = in.number<std::uint64_t>();
    in.expect(name == local->name() && bytes == local->bytes(),
              "it allocates " + name + " of " + std::to_string(bytes) + " bytes where this rank allocates " +
                  local->name() + " of " + std::to_string(local->bytes()));
    remotes.push_back(fabric_->attach(rank, in.text()));
    in.expect_end();
  }
  return std::make_unique<SymmetricRegion>(std::move(local), std::move(remotes));
}

// Everybody tells everybody that it has arrived, and goes only when all can see it. Nobody passes a message on, so who
// arrived and then left or died has cost the others nothing: only a rank that will never arrive ends the barrier with
// peer_lost. A barrier that timed out is the same barrier when it is called again.
Outcome HostTeam::barrier(Deadline deadline) {
  const std::lock_guard lock(collective_);
  for (Rank rank = 0; rank < size(); ++rank) {
    const auto word = arrivals_->of(rank).word<ControlWord>(arrival_offset(this->rank()));
    if (channel_->write_signal(word, round_, deadline) == Outcome::timed_out) return Outcome::timed_out;
  }
  for (Rank rank = 0; rank < size(); ++rank) {
    if (channel_->flush(rank, deadline) == Outcome::timed_out) return Outcome::timed_out;
  }
  for (std::vector<Rank> awaited = missing(); !awaited.empty(); awaited = missing()) {
    const auto word = arrivals_->local().word<ControlWord>(arrival_offset(awaited.front()));
    const auto has_arrived = [this](std::uint64_t round) { return round >= round_; };
    const Outcome outcome = channel_->wait_until(arrivals_->local(), word, has_arrived, deadline, awaited);
    if (outcome == Outcome::timed_out) return outcome;
    // What a rank stored before it died is looked at after its death was seen.
    const auto never_comes = [this](Rank rank) { return fabric_->lost(rank) && !arrived(rank); };
    if (outcome == Outcome::peer_lost && std::ranges::any_of(awaited, never_comes)) return outcome;
  }
  channel_->local_fence();
  ++round_;
  return Outcome::done;
}

bool HostTeam::arrived(Rank rank) const {
  return arrivals_->local().word<ControlWord>(arrival_offset(rank)).load() >= round_;
}

std::vector<Rank> HostTeam::missing() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (!arrived(rank)) ranks.push_back(rank);
  }
  return ranks;
}

// The number of losses: whoever sees one, through the team or the fabric, sees the epoch that it began.
std::uint64_t HostTeam::epoch() const {
  std::uint64_t losses = 0;
  for (Rank rank = 0; rank < size(); ++rank) losses += fabric_->lost(rank) ? 1 : 0;
  return losses;
}

Outcome HostTeam::evict(Rank rank, Deadline deadline) {
  if (rank == this->rank() || rank >= size()) {
    throw Error({"evict", named(rank), "it is not another member of this team", ""});
  }
  bootstrap_->evict(rank);
  lose(rank, Loss::died);  // revoked here, to tell the caller how it went
  return fabric_->revoke(rank, deadline);
}

// The kernel tells of every death on this host, at no cost until then.
void HostTeam::watch_processes() {
  for (Rank rank = 0; rank < size(); ++rank) {
    if (rank == this->rank() || cards_[rank].host != own_card().host) continue;
    processes_.push_back(open_process(cards_[rank].process));
    loop_.post([this, rank, fd = processes_.back().get()] {
      if (fd < 0) return lose(rank, Loss::died);
      loop_.watch(fd, EPOLLIN, [this, rank, fd](std::uint32_t) {
        loop_.forget(fd);
        lose(rank, Loss::died);
      });
    });
  }
}

void HostTeam::lose(Rank rank, Loss loss) {
  if (rank == this->rank()) {
    // Somebody took this process for dead: it must not go on as if it were a member.
    if (loss == Loss::evicted) lose_everybody();
    return;
  }
  {
    const std::lock_guard lock(membership_);
    gone_.insert(rank);
    if (!connected_) return;
    fabric_->mark_lost(rank);
  }
  if (loss == Loss::evicted) take_access(rank);
}

void HostTeam::take_access(Rank rank) try {
  const Outcome outcome = fabric_->revoke(rank, fabric_->in(kRevokeLimit));
  if (outcome != Outcome::done) log::warn("the access of evicted " + named(rank) + " is not gone yet");
} catch (const Error& error) {
  log::warn(error.what());
}

void HostTeam::lose_everybody() {
  for (Rank rank = 0; rank < size(); ++rank) {
    if (rank != this->rank()) lose(rank, Loss::died);
  }
}

// Without the coordinator nobody tells who dies on another host.
void HostTeam::lose_other_hosts() {
  {
    const std::lock_guard lock(membership_);
    if (!connected_) return;
  }
  for (Rank rank = 0; rank < size(); ++rank) {
    if (cards_[rank].host != own_card().host) lose(rank, Loss::died);
  }
}

}  // namespace farside
