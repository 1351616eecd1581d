#include "kv_baselines/team_store.h"

#include <span>
#include <string>
#include <utility>

#include "farside/base/error.h"

namespace farside::kv_baselines {

namespace {

constexpr Duration kSetUp = std::chrono::seconds(30);

TransportOptions transport_options(const TeamStoreOptions& options) {
  return {.servers = options.seats(),
          .first_server = options.first_server,
          .sessions = options.sessions,
          .transport = options.transport,
          .waking = options.waking,
          .mailbox = options.mailbox,
          .replies = options.replies};
}

}  // namespace

TeamStore::TeamStore(team::Team& team, const TeamStoreOptions& options)
    : team_(team),
      options_(options),
      memory_(team.allocate("kv memory", options.store.bytes)),
      transport_(team, transport_options(options)) {
  if (has_standbys()) {
    rings_ = team.allocate("kv rings of standbys", options.ring_bytes);
    epochs_ = team.allocate("kv epochs", epoch_offset(options.seats() + 1));
  }
  if (serves()) begin_to_serve();
  if (team.barrier(team.fabric().in(kSetUp)) != Outcome::done) {
    throw Error({"set up", "a store within the team", "a rank is lost, or did not come", "start the job again"});
  }
  if (serves()) reach_other_servers();
}

void TeamStore::begin_to_serve() {
  channel_ = team_.fabric().open_channel();
  inbox_ = transport_.open_inbox(*channel_);
  const kv::PartitionSettings settings{.partition = {partition(), options_.servers},
                                       .store = options_.store,
                                       .termination_timeout = options_.termination_timeout,
                                       .rules = options_.rules,
                                       .replica_rules = options_.replica_rules};
  server_ =
      std::make_unique<kv::PartitionServer>(team_.fabric(), *channel_, memory_->local(), *inbox_, settings, role());
  if (is_spare()) {
    server_->add_chore([this] { return admit_all(); });
  } else if (is_standby()) {
    tell_at_promotion(server_->epoch_words());
  }
}

kv::ServerRole TeamStore::role() {
  if (is_standby()) return stand_by();
  if (has_standbys()) return ship_to(standby_of(partition()));
  return kv::SoleServer{options_.journal};
}

kv::PrimaryServer TeamStore::ship_to(std::optional<team::Rank> standby) {
  using Way = kv::ShippingJournal::Way;
  using Standing = kv::ShippingJournal::Standing;
  own_standby_ = standby.value_or(team_.rank());
  own_alone().store(standby ? identity(*standby) : kv::Homes::kIsAlone);
  const auto way = [this] { return Way{&rings_->of(own_standby_)}; };
  const auto reach_again = [this, way] {
    const bool reached = options_.reach_again && options_.reach_again(own_standby_);
    return reached ? std::optional(way()) : std::nullopt;
  };
  const auto find_another = [this, way]() -> std::optional<Way> {
    const team::Rank spare = spare_of(partition());
    const bool is_one = options_.has_spares && own_standby_ != spare && !is_spare();
    if (!is_one || !team_.alive(spare) || !options_.ship(spare, team_.rank())) return std::nullopt;
    own_standby_ = spare;
    return way();
  };
  return {.standby = standby ? std::optional(way()) : std::nullopt,
          .is_standby_dead = [this] { return team_.has_died(own_standby_); },
          .reach_again = reach_again,
          .note_standing =
              [this](Standing standing, bool) {
                if (standing == Standing::alone) own_alone().store(kv::Homes::kIsAlone);
              },
          .find_another = find_another,
          .retract_alone = [this] { return retract_alone(); },
          .shipping = options_.shipping};
}

bool TeamStore::retract_alone() {
  if (!retracted_since_) {
    own_alone().store(identity(own_standby_));
    channel_->local_fence();
    retracted_since_ = team_.fabric().now();
  }
  return !options_.lease || team_.fabric().now() - *retracted_since_ >= kv::outlasting(*options_.lease);
}

kv::StandbyServer TeamStore::stand_by() {
  const auto cut_off = [this](PeerId peer) {
    Fabric& fabric = team_.fabric();
    return fabric.revoke(peer, fabric.in(options_.revoke_limit)) == Outcome::done;
  };
  std::optional<kv::EpochWords::Leases> leases;
  if (options_.lease) {
    leases = kv::EpochWords::Leases{epochs_->local().word<ControlWord>(epoch_offset(seat())), *options_.lease};
  }
  if (!is_spare()) primary_ = primary_of(partition());
  return {.ring = rings_->local(),
          .begins = is_spare() ? kv::ShippedLog::Begins::empty : kv::ShippedLog::Begins::full,
          .leases = leases,
          .cut_off = cut_off,
          .is_primary_dead = [this] { return primary_ && team_.has_died(*primary_); },
          .take_primarys_access = [this, cut_off] { return cut_off(*primary_); },
          .note_given_up = [](std::string_view) {},  // has_given_up is asked
          .promoted = ship_to(std::nullopt),
          .timeouts = options_.telling};
}

// All ranks: sessions as well as servers believe the primary until then.
void TeamStore::tell_at_promotion(kv::EpochWords& words) {
  for (team::Rank rank = 0; rank < team_.size(); ++rank) {
    if (rank != team_.rank()) words.add(epochs_->of(rank).word<ControlWord>(epoch_offset(seat())));
  }
}

void TeamStore::reach_other_servers() {
  if (has_standbys()) {
    homed_ = find_homes(*channel_, 0, false);
    to_servers_ = std::make_unique<kv::HomedRequests>(team_.fabric(), *homed_.homes, *homed_.seats);
  } else {
    to_servers_ = transport_.open_requests(*channel_, 0);
  }
  server_->ask_others_by(*to_servers_);
}

void TeamStore::serve_until(const std::function<bool()>& ended) { server_->serve_until(ended); }

std::unique_ptr<kv::SessionStack> TeamStore::open_session(std::uint32_t number, kv::SessionSettings settings) {
  if (serves() || number >= options_.sessions) {
    throw UsageError({"open a session", "number " + std::to_string(number) + " of rank " + std::to_string(team_.rank()),
                      serves() ? "that rank serves" : "each rank has " + std::to_string(options_.sessions),
                      "give TeamStoreOptions::sessions as many as are opened"});
  }
  settings.grace = options_.store.grace;
  settings.session = std::uint64_t{team_.incarnation()} << 48U | std::uint64_t{team_.rank()} << 32U | number;
  if (has_standbys()) {
    auto channel = team_.fabric().open_channel();
    auto [seats, homes] = find_homes(*channel, number, true);
    return std::make_unique<kv::SessionStack>(team_.fabric(), std::move(channel), std::move(seats), std::move(homes),
                                              settings, options_.rules);
  }
  std::vector<kv::ServerMemory> memories;
  for (kv::ServerNumber server = 0; server < options_.servers; ++server) memories.push_back(read_head(server));
  auto channel = team_.fabric().open_channel();
  auto requests = transport_.open_requests(*channel, number);
  return std::make_unique<kv::SessionStack>(team_.fabric(), std::move(channel), std::move(requests),
                                            std::move(memories), settings, options_.rules);
}

std::unique_ptr<kv::MailboxRequests> TeamStore::open_seats(Channel& channel, std::uint32_t number) {
  if (options_.transport != Transport::mailbox) {
    throw UsageError(
        {"have standbys", "within the team", "its transport has no mailboxes", "choose Transport::mailbox"});
  }
  std::vector<kv::MailboxEnd> ends;
  for (kv::ServerNumber seat = 0; seat < 2 * options_.servers; ++seat) {
    ends.push_back(transport_.end_of_server(number, seat));
  }
  return std::make_unique<kv::MailboxRequests>(team_.fabric(), channel, ends, options_.mailbox, options_.waking);
}

struct TeamStore::Known {
  /// The seats of those that have been joined.
  struct Servers {
    kv::ServerNumber primary;
    std::optional<kv::ServerNumber> standby;
    std::uint64_t moves = 0;
  };

  std::vector<Servers> partitions;
  Channel& channel;
  std::uint32_t session;
  bool is_for_session;
  kv::MailboxRequests* seats = nullptr;
  kv::Homes* homes = nullptr;
};

// A server that asks the others takes nothing from their memory. It needs no lease, either: it takes nothing from a
// primary that the standby has not.
kv::Homes::Primary TeamStore::server(const Known& known, kv::ServerNumber seat) {
  return {.memory = known.is_for_session ? read_head(seat) : kv::ServerMemory{},
          .peer = transport_.rank_of(seat),
          .alone = alone_of(seat)};
}

kv::Homes::Standby TeamStore::standby(const Known& known, kv::ServerNumber seat, std::uint64_t epoch) {
  const team::Rank rank = transport_.rank_of(seat);
  return {.promoted = server(known, seat),
          .told = epochs_->local().word<ControlWord>(epoch_offset(seat)),
          .epoch_when_asked = epoch,
          .identity = identity(rank),
          .epoch = epochs_->of(rank).word<ControlWord>(epoch_offset(seat))};
}

TeamStore::Homed TeamStore::find_homes(Channel& channel, std::uint32_t number, bool is_for_session) {
  std::vector<kv::Homes::Home> homes;
  auto known = std::make_shared<Known>(Known{{}, channel, number, is_for_session});
  for (kv::ServerNumber partition = 0; partition < options_.servers; ++partition) {
    const kv::ServerNumber second = options_.servers + partition;
    known->partitions.push_back({partition, second});
    homes.push_back({.primary = server(*known, partition), .standby = standby(*known, second, 0)});
    homes.back().standby->promoted.seat = 1;
    if (is_for_session) homes.back().lease = options_.lease;
  }
  Homed homed{open_seats(channel, number), nullptr};
  homed.homes = std::make_unique<kv::Homes>(
      team_.fabric(), channel, std::move(homes),
      [this, known](kv::ServerNumber partition) { return how_is_standby(*known, partition); }, options_.replica_rules,
      options_.first_slice);
  known->seats = homed.seats.get();
  known->homes = homed.homes.get();
  return homed;
}

// A spare is joined when it is needed, and not before, unless the options say so.
kv::Homes::StandbyIs TeamStore::how_is_standby(Known& known, kv::ServerNumber partition) {
  using StandbyIs = kv::Homes::StandbyIs;
  Known::Servers& at = known.partitions.at(partition);
  if (known.homes != nullptr && at.moves != known.homes->moves(partition)) {
    at.moves = known.homes->moves(partition);
    at.primary = *std::exchange(at.standby, std::nullopt);
  }
  const Result<std::uint64_t> named = known.channel.load(alone_of(at.primary), team_.fabric().in(options_.ask_alone));
  const bool is_alone = named.done() && named.value == kv::Homes::kIsAlone;
  if (is_alone && !options_.joins_early) return StandbyIs::gone;
  if (at.standby && team_.alive(transport_.rank_of(*at.standby))) {
    if (!named.done()) return StandbyIs::joining;
    if (is_alone || named.value == identity(transport_.rank_of(*at.standby))) return StandbyIs::joined;
  }
  const kv::ServerNumber spare = 2 * options_.servers + partition;
  if (!options_.has_spares) return StandbyIs::gone;
  const auto otherwise = is_alone ? StandbyIs::gone : StandbyIs::away;
  if (at.standby == spare || at.primary == spare || known.homes == nullptr) return otherwise;
  const auto epoch = options_.join(transport_.rank_of(spare), team_.rank());
  if (!epoch) return is_alone || !team_.alive(transport_.rank_of(spare)) ? otherwise : StandbyIs::joining;
  const unsigned seat = 1 - known.homes->seat(partition);
  known.seats->replace(seat * options_.servers + partition, transport_.end_of_server(known.session, spare));
  kv::Homes::Standby another = standby(known, spare, *epoch);
  another.promoted.seat = seat;
  known.homes->set_standby(partition, another);
  at.standby = spare;
  return is_alone ? StandbyIs::gone : StandbyIs::joining;
}

std::optional<std::uint64_t> TeamStore::admit(team::Rank rank) { return joined_[rank]; }

bool TeamStore::follow(team::Rank primary) {
  if (primary_) return false;
  primary_ = primary;
  return true;
}

bool TeamStore::admit_all() {
  for (auto& [rank, epoch] : joined_) {
    if (epoch) continue;
    server_->epoch_words().add(epochs_->of(rank).word<ControlWord>(epoch_offset(seat())));
    epoch = server_->epoch();
  }
  return false;
}

kv::ServerMemory TeamStore::read_head(kv::ServerNumber seat) {
  Fabric& fabric = team_.fabric();
  const RemoteRegion& memory = memory_->of(transport_.rank_of(seat));
  const auto read = kv::ServerMemory::read(*fabric.open_channel(), memory, fabric.in(kSetUp));
  if (!read) {
    throw Error({"read the memory of", "server " + std::to_string(seat), "it does not answer", "start the job again"});
  }
  return *read;
}

}  // namespace farside::kv_baselines
