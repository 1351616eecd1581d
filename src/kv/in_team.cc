#include "kv/in_team.h"

#include <span>
#include <string>
#include <utility>

#include "farside/base/error.h"

namespace farside::kv {

namespace {

constexpr Duration kSetUp = std::chrono::seconds(30);

// Versions that are reclaimed between two looks at what has come.
constexpr std::size_t kReclaimedAtOnce = 16;

TransportOptions transport_options(const InTeamOptions& options) {
  return {.servers = options.servers,
          .first_server = options.first_server,
          .sessions = options.sessions,
          .transport = options.transport,
          .waking = options.waking,
          .mailbox = options.mailbox};
}

}  // namespace

TeamSession::TeamSession(Fabric& fabric, std::unique_ptr<Channel> channel, std::unique_ptr<Requests> requests,
                         std::vector<ServerMemory> memories, const SessionSettings& settings, const KvRules& rules)
    : channel_(std::move(channel)),
      memories_(std::move(memories)),
      requests_(std::move(requests)),
      session_(fabric, *channel_, *requests_, memories_, settings, rules) {}

InTeam::InTeam(Team& team, const InTeamOptions& options)
    : team_(team),
      options_(options),
      memory_(team.allocate("kv memory", options.store.bytes)),
      transport_(team, transport_options(options)) {
  if (serves()) begin_to_serve();
  if (team.barrier(team.fabric().in(kSetUp)) != Outcome::done) {
    throw Error({"set up", "a store within the team", "a rank is lost, or did not come", "start the job again"});
  }
  if (serves()) reach_other_servers();
}

void InTeam::begin_to_serve() {
  Fabric& fabric = team_.fabric();
  channel_ = fabric.open_channel();
  store_ = std::make_unique<Store>(fabric, *channel_, memory_->local(), options_.store, options_.rules);
  if (options_.journal) {
    journal_ = std::make_unique<FileJournal>(
        *options_.journal, Partition{team_.rank() - options_.first_server, options_.servers}, *store_);
  }
  logged_ = std::make_unique<LoggedStore>(*store_, journal_.get());
  handler_ = std::make_unique<RequestHandler>(*logged_);
  inbox_ = transport_.open_inbox(*channel_);
  const auto answer = [this](std::span<const std::byte> request) { return handler_->answer_or_hold(request); };
  server_ = std::make_unique<Server>(*inbox_, answer);
  server_->add_chore([this] {
    handler_->keep(*inbox_);
    return logged_->step();
  });
  server_->add_chore([this] { return store_->reclaim(kReclaimedAtOnce) != 0; });
}

void InTeam::reach_other_servers() {
  to_servers_ = transport_.open_requests(*channel_, 0);
  terminator_ = std::make_unique<Terminator>(team_.fabric(), *logged_, *to_servers_,
                                             team_.rank() - options_.first_server, options_.patience);
  server_->add_chore([this] { return terminator_->step(); });
}

void InTeam::serve_until(const std::function<bool()>& ended) { server_->serve_until(ended); }

std::unique_ptr<TeamSession> InTeam::open_session(std::uint32_t number, SessionSettings settings) {
  if (serves() || number >= options_.sessions) {
    throw UsageError({"open a session", "number " + std::to_string(number) + " of rank " + std::to_string(team_.rank()),
                      serves() ? "that rank serves" : "each rank has " + std::to_string(options_.sessions),
                      "give InTeamOptions::sessions as many as are opened"});
  }
  settings.grace = options_.store.grace;
  settings.session = std::uint64_t{team_.incarnation()} << 48U | std::uint64_t{team_.rank()} << 32U | number;
  std::vector<ServerMemory> memories;
  for (ServerNumber server = 0; server < options_.servers; ++server) memories.push_back(read_head(server));
  auto channel = team_.fabric().open_channel();
  auto requests = transport_.open_requests(*channel, number);
  return std::make_unique<TeamSession>(team_.fabric(), std::move(channel), std::move(requests), std::move(memories),
                                       settings, options_.rules);
}

ServerMemory InTeam::read_head(ServerNumber server) {
  Fabric& fabric = team_.fabric();
  const RemoteRegion& memory = memory_->of(transport_.rank_of(server));
  const auto read = ServerMemory::read(*fabric.open_channel(), memory, fabric.in(kSetUp));
  if (!read) {
    throw Error(
        {"read the memory of", "server " + std::to_string(server), "it does not answer", "start the job again"});
  }
  return *read;
}

}  // namespace farside::kv
