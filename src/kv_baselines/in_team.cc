#include "kv_baselines/in_team.h"

#include <span>
#include <string>
#include <utility>

#include "farside/base/error.h"

namespace farside::kv_baselines {

namespace {

constexpr Duration kSetUp = std::chrono::seconds(30);

// Versions that are reclaimed between two looks at what has come.
constexpr std::size_t kReclaimedAtOnce = 16;

TransportOptions transport_options(const InTeamOptions& options) {
  return {.servers = options.seats(),
          .first_server = options.first_server,
          .sessions = options.sessions,
          .transport = options.transport,
          .waking = options.waking,
          .mailbox = options.mailbox,
          .replies = options.replies};
}

}  // namespace

TeamSession::TeamSession(Fabric& fabric, std::unique_ptr<Channel> channel, std::unique_ptr<kv::Requests> requests,
                         std::vector<kv::ServerMemory> memories, const kv::SessionSettings& settings,
                         const kv::KvRules& rules)
    : channel_(std::move(channel)),
      memories_(std::move(memories)),
      requests_(std::move(requests)),
      session_(fabric, *channel_, *requests_, memories_, settings, rules) {}

TeamSession::TeamSession(Fabric& fabric, std::unique_ptr<Channel> channel, std::unique_ptr<kv::MailboxRequests> seats,
                         std::unique_ptr<kv::Homes> homes, const kv::SessionSettings& settings,
                         const kv::KvRules& rules)
    : channel_(std::move(channel)),
      homes_(std::move(homes)),
      seats_(std::move(seats)),
      requests_(std::make_unique<kv::HomedRequests>(fabric, *homes_, *seats_)),
      session_(fabric, *channel_, *requests_, homes_->memories(), settings, rules, homes_.get()) {}

InTeam::InTeam(team::Team& team, const InTeamOptions& options)
    : team_(team),
      options_(options),
      memory_(team.allocate("kv memory", options.store.bytes)),
      transport_(team, transport_options(options)) {
  if (has_standbys()) {
    rings_ = team.allocate("kv rings of standbys", options.ring_bytes);
    epochs_ = team.allocate("kv epochs", epoch_offset(2 * options.servers));
  }
  if (serves()) begin_to_serve();
  if (team.barrier(team.fabric().in(kSetUp)) != Outcome::done) {
    throw Error({"set up", "a store within the team", "a rank is lost, or did not come", "start the job again"});
  }
  if (serves()) reach_other_servers();
}

void InTeam::begin_to_serve() {
  Fabric& fabric = team_.fabric();
  channel_ = fabric.open_channel();
  store_ = std::make_unique<kv::Store>(fabric, *channel_, memory_->local(), options_.store, options_.rules);
  if (is_standby()) {
    begin_to_stand_by();
  } else {
    open_journal();
  }
  logged_ = std::make_unique<kv::LoggedStore>(*store_, journal_.get());
  handler_ = std::make_unique<kv::RequestHandler>(*logged_);
  inbox_ = transport_.open_inbox(*channel_);
  const auto answer = [this](std::span<const std::byte> request) -> kv::Inbox::Said {
    if (standby_ && !standby_->serves()) return kv::Message{};  // no client asks it
    return handler_->answer_or_hold(request);
  };
  server_ = std::make_unique<kv::Server>(*inbox_, answer);
  server_->add_chore([this] {
    handler_->keep(*inbox_);
    const bool more_to_do = logged_->step();
    if (shipping_ != nullptr && shipping_->is_alone()) {
      epochs_->local().word<ControlWord>(alone_offset(partition())).store(1);
      shipping_ = nullptr;
    }
    return more_to_do;
  });
  server_->add_chore([this] { return store_->reclaim(kReclaimedAtOnce) != 0; });
  if (standby_) server_->add_chore([this] { return standby_->step(); });
}

void InTeam::open_journal() {
  Fabric& fabric = team_.fabric();
  if (has_standbys()) {
    const team::Rank standby = standby_of(partition());
    const kv::ShippingJournal::Way way{&rings_->of(standby)};
    const auto reach_again = [this, way, standby] {
      const bool reached = options_.reach_again && options_.reach_again(standby);
      return reached ? std::optional(way) : std::nullopt;
    };
    auto shipping = std::make_unique<kv::ShippingJournal>(
        fabric, *channel_, way, [this, standby] { return team_.has_died(standby); }, reach_again,
        options_.replica_rules, options_.shipping);
    shipping_ = shipping.get();
    journal_ = std::move(shipping);
  } else if (options_.journal) {
    journal_ =
        std::make_unique<kv::FileJournal>(*options_.journal, kv::Partition{partition(), options_.servers}, *store_);
  }
}

void InTeam::begin_to_stand_by() {
  Fabric& fabric = team_.fabric();
  const auto cut_off = [&fabric, limit = options_.revoke_limit](PeerId peer) {
    return fabric.revoke(peer, fabric.in(limit)) == Outcome::done;
  };
  std::optional<kv::EpochWords::Leases> leases;
  if (options_.lease) {
    leases = kv::EpochWords::Leases{epochs_->local().word<ControlWord>(epoch_offset(partition())), *options_.lease};
  }
  words_ =
      std::make_unique<kv::EpochWords>(fabric, *channel_, leases, cut_off, options_.replica_rules, options_.telling);
  for (team::Rank rank = 0; rank < team_.size(); ++rank) {
    if (rank != team_.rank()) words_->add(epochs_->of(rank).word<ControlWord>(epoch_offset(partition())));
  }
  const team::Rank primary = primary_of(partition());
  standby_ = std::make_unique<kv::Standby>(
      *channel_, rings_->local(), *store_, partition(), *words_, [this, primary] { return team_.has_died(primary); },
      [cut_off, primary] { return cut_off(primary); }, options_.replica_rules);
}

void InTeam::reach_other_servers() {
  if (has_standbys()) {
    homes_ = find_homes(*channel_, false);
    to_seats_ = open_seats(*channel_, 0);
    to_servers_ = std::make_unique<kv::HomedRequests>(team_.fabric(), *homes_, *to_seats_);
  } else {
    to_servers_ = transport_.open_requests(*channel_, 0);
  }
  terminator_ =
      std::make_unique<kv::Terminator>(team_.fabric(), *logged_, *to_servers_, partition(), options_.patience);
  server_->add_chore([this] { return (standby_ == nullptr || standby_->serves()) && terminator_->step(); });
}

void InTeam::serve_until(const std::function<bool()>& ended) { server_->serve_until(ended); }

std::unique_ptr<TeamSession> InTeam::open_session(std::uint32_t number, kv::SessionSettings settings) {
  if (serves() || number >= options_.sessions) {
    throw UsageError({"open a session", "number " + std::to_string(number) + " of rank " + std::to_string(team_.rank()),
                      serves() ? "that rank serves" : "each rank has " + std::to_string(options_.sessions),
                      "give InTeamOptions::sessions as many as are opened"});
  }
  settings.grace = options_.store.grace;
  settings.session = std::uint64_t{team_.incarnation()} << 48U | std::uint64_t{team_.rank()} << 32U | number;
  if (has_standbys()) {
    auto channel = team_.fabric().open_channel();
    auto seats = open_seats(*channel, number);
    auto homes = find_homes(*channel, true);
    return std::make_unique<TeamSession>(team_.fabric(), std::move(channel), std::move(seats), std::move(homes),
                                         settings, options_.rules);
  }
  std::vector<kv::ServerMemory> memories;
  for (kv::ServerNumber server = 0; server < options_.servers; ++server) memories.push_back(read_head(server));
  auto channel = team_.fabric().open_channel();
  auto requests = transport_.open_requests(*channel, number);
  return std::make_unique<TeamSession>(team_.fabric(), std::move(channel), std::move(requests), std::move(memories),
                                       settings, options_.rules);
}

std::unique_ptr<kv::MailboxRequests> InTeam::open_seats(Channel& channel, std::uint32_t number) {
  auto requests = transport_.open_requests(channel, number);
  auto* const mailboxes = dynamic_cast<kv::MailboxRequests*>(requests.get());
  if (mailboxes == nullptr) {
    throw UsageError(
        {"have standbys", "within the team", "its transport has no mailboxes", "choose Transport::mailbox"});
  }
  (void)requests.release();
  return std::unique_ptr<kv::MailboxRequests>(mailboxes);
}

std::unique_ptr<kv::Homes> InTeam::find_homes(Channel& channel, bool is_for_session) {
  std::vector<kv::Homes::Home> homes;
  for (kv::ServerNumber partition = 0; partition < options_.servers; ++partition) {
    homes.push_back({.primary = is_for_session ? read_head(partition) : kv::ServerMemory{},
                     .standby = is_for_session ? read_head(options_.servers + partition) : kv::ServerMemory{},
                     .primary_peer = primary_of(partition),
                     .epoch = epochs_->local().word<ControlWord>(epoch_offset(partition))});
    if (!is_for_session || !options_.lease) continue;  // a server takes nothing that its standby has not
    homes.back().lease_source = kv::Homes::LeaseSource{
        epochs_->of(standby_of(partition)).word<ControlWord>(epoch_offset(partition)),
        epochs_->of(primary_of(partition)).word<ControlWord>(alone_offset(partition)), *options_.lease};
  }
  const auto how_is_standby = [this](kv::ServerNumber partition) {
    return team_.alive(standby_of(partition)) ? kv::Homes::StandbyIs::joined : kv::Homes::StandbyIs::gone;
  };
  return std::make_unique<kv::Homes>(team_.fabric(), channel, std::move(homes), how_is_standby, options_.replica_rules,
                                     options_.first_slice);
}

kv::ServerMemory InTeam::read_head(kv::ServerNumber seat) {
  Fabric& fabric = team_.fabric();
  const RemoteRegion& memory = memory_->of(transport_.rank_of(seat));
  const auto read = kv::ServerMemory::read(*fabric.open_channel(), memory, fabric.in(kSetUp));
  if (!read) {
    throw Error({"read the memory of", "server " + std::to_string(seat), "it does not answer", "start the job again"});
  }
  return *read;
}

}  // namespace farside::kv_baselines
