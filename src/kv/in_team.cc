#include "kv/in_team.h"

#include <string>
#include <utility>

#include "farside/base/error.h"

namespace farside::kv {

namespace {

constexpr Duration kSetUp = std::chrono::seconds(30);

/// Where the rings of a session and a server are: at both in the same place. Servers have a session each, to ask each
/// other.
std::uint64_t ring_offset(const InTeamOptions& options, Rank client, std::uint32_t session, ServerNumber server) {
  const std::uint64_t sessions =
      options.serves(client) ? client
                             : options.servers + (client - options.servers) * std::uint64_t{options.sessions} + session;
  return (sessions * options.servers + server) * options.mailbox.ring_bytes();
}

/// Behind all rings: what wakes a server.
std::uint64_t bell_offset(const Team& team, const InTeamOptions& options) {
  return ring_offset(options, team.size(), 0, 0);
}

}  // namespace

TeamSession::TeamSession(Fabric& fabric, const std::vector<MailboxEnd>& ends, std::vector<ServerMemory> memories,
                         const InTeamOptions& options, const SessionSettings& settings)
    : channel_(fabric.open_channel()),
      memories_(std::move(memories)),
      requests_(fabric, *channel_, ends, options.mailbox, options.waking),
      session_(fabric, *channel_, requests_, memories_, settings, options.rules) {}

InTeam::InTeam(Team& team, const InTeamOptions& options)
    : team_(team),
      options_(options),
      memory_(team.allocate("kv memory", options.store.bytes)),
      rings_(team.allocate("kv mailboxes", bell_offset(team, options) + sizeof(AtomicWord))) {
  if (serves()) begin_to_serve();
  if (team.barrier(team.fabric().in(kSetUp)) != Outcome::done) {
    throw Error({"set up", "a store within the team", "a rank is lost, or did not come", "start the job again"});
  }
}

void InTeam::begin_to_serve() {
  Fabric& fabric = team_.fabric();
  const std::uint64_t bell = bell_offset(team_, options_);
  channel_ = fabric.open_channel();
  store_ = std::make_unique<Store>(fabric, *channel_, memory_->local(), options_.store, options_.rules);
  server_ = std::make_unique<Server>(fabric, *channel_, *store_, rings_->local(), bell, options_.mailbox);
  for (Rank client = 0; client < team_.size(); ++client) {
    const std::uint32_t sessions = options_.serves(client) ? 1 : options_.sessions;
    for (std::uint32_t session = 0; session < sessions; ++session) {
      server_->attach(end(client, ring_offset(options_, client, session, team_.rank())), options_.waking);
    }
  }
  to_servers_ = std::make_unique<MailboxRequests>(fabric, *channel_, ends_of(0), options_.mailbox, options_.waking);
  terminator_ = std::make_unique<Terminator>(fabric, *store_, *to_servers_, team_.rank(), options_.patience);
  server_->finish_with(*terminator_);
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
  return std::make_unique<TeamSession>(team_.fabric(), ends_of(number), std::move(memories), options_, settings);
}

std::vector<MailboxEnd> InTeam::ends_of(std::uint32_t session) {
  std::vector<MailboxEnd> ends;
  for (ServerNumber server = 0; server < options_.servers; ++server) {
    ends.push_back(end(server, ring_offset(options_, team_.rank(), session, server)));
    ends.back().bell = rings_->of(server).word<AtomicWord>(bell_offset(team_, options_));
  }
  return ends;
}

MailboxEnd InTeam::end(Rank other, std::uint64_t offset) {
  return {.own = &rings_->local(),
          .own_offset = offset,
          .other = &rings_->of(other),
          .other_offset = offset,
          .by_memory = team_.fabric().reaches_by_memory(other)};
}

ServerMemory InTeam::read_head(ServerNumber server) {
  const auto channel = team_.fabric().open_channel();
  const RemoteRegion& memory = memory_->of(server);
  MemoryHead head{};
  if (channel->read(LocalSpan(head), memory.span(0, sizeof head), team_.fabric().in(kSetUp)) != Outcome::done) {
    throw Error(
        {"read the memory of", "server " + std::to_string(server), "it does not answer", "start the job again"});
  }
  return ServerMemory::of(memory, head);
}

}  // namespace farside::kv
