#include "kv_baselines/transports/team_transport.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "farside/base/error.h"

#include "kv/mailbox/mailbox_inbox.h"
#include "kv_baselines/transports/queue_inbox.h"
#include "kv_baselines/transports/socket_inbox.h"
#include "kv_baselines/transports/socket_stream.h"
#include "kv_baselines/transports/stream_requests.h"
#include "net/socket.h"

namespace farside::kv_baselines {

namespace {

constexpr std::chrono::seconds kSetUp{30};

// With sockets a server's memory has but its address, as text, and zeros.
using AddressText = std::array<char, 256>;

std::string read_address(Fabric& fabric, Channel& channel, const RemoteRegion& memory, kv::ServerNumber server) {
  AddressText text{};
  if (channel.read(LocalSpan(text), memory.span(0, sizeof text), fabric.in(kSetUp)) != Outcome::done) {
    throw Error({"reach", "server " + std::to_string(server), "it does not answer", "start the job again"});
  }
  return {text.begin(), std::ranges::find(text, '\0')};
}

void write_address(const Region& memory, const std::string& address) {
  AddressText text{};
  if (address.size() >= text.size()) {
    throw UsageError({"listen on", address, "it has over 255 bytes", "name the host more shortly"});
  }
  std::ranges::copy(address, text.begin());
  memory.copy_in(0, std::as_bytes(std::span(text)));
}

}  // namespace

TeamTransport::TeamTransport(team::Team& team, const TransportOptions& options) : team_(team), options_(options) {
  if (options.transport == Transport::socket) {
    of_servers_ = team.allocate("kv addresses", sizeof(AddressText));
    return;
  }
  of_servers_ = allocate("kv mailboxes of servers", options.servers, sizeof(AtomicWord));
  for (std::uint32_t session = 0; session < options.sessions; ++session) {
    by_session_.push_back(allocate("kv mailboxes " + std::to_string(session), team.size() - options.servers, 0));
  }
}

std::unique_ptr<team::SymmetricRegion> TeamTransport::allocate(const std::string& name, std::uint64_t clients,
                                                               std::uint64_t more_bytes) {
  const std::uint64_t rings = std::max<std::uint64_t>(clients, 1) * options_.servers * options_.mailbox.ring_bytes();
  return team_.allocate(name, rings + more_bytes);
}

std::unique_ptr<kv::Inbox> TeamTransport::open_inbox(Channel& channel) {
  Fabric& fabric = team_.fabric();
  const auto for_each_client = [this](auto&& attach) {
    for (team::Rank client = 0; client < team_.size(); ++client) {
      const std::uint32_t sessions = serves(client) ? 1 : options_.sessions;
      for (std::uint32_t session = 0; session < sessions; ++session) {
        attach(end(client, place(client, session, team_.rank() - options_.first_server)));
      }
    }
  };
  switch (options_.transport) {
    case Transport::socket: {
      auto inbox = std::make_unique<SocketInbox>(fabric, "127.0.0.1:0");
      write_address(of_servers_->local(), inbox->address());
      return inbox;
    }
    case Transport::send_receive: {
      auto inbox = std::make_unique<QueueInbox>(fabric, channel, of_servers_->local(), bell_offset(), options_.mailbox);
      for_each_client([&](const kv::MailboxEnd& client) { inbox->attach(client); });
      return inbox;
    }
    case Transport::mailbox: break;
  }
  auto inbox = std::make_unique<kv::MailboxInbox>(fabric, channel, of_servers_->local(), bell_offset(),
                                                  options_.mailbox, options_.replies);
  for_each_client([&](const kv::MailboxEnd& client) { inbox->attach(client, options_.waking); });
  return inbox;
}

std::unique_ptr<kv::Requests> TeamTransport::open_requests(Channel& channel, std::uint32_t number) {
  Fabric& fabric = team_.fabric();
  if (options_.transport == Transport::mailbox) {
    std::vector<kv::MailboxEnd> ends;
    for (kv::ServerNumber server = 0; server < options_.servers; ++server)
      ends.push_back(end_of_server(number, server));
    return std::make_unique<kv::MailboxRequests>(fabric, channel, ends, options_.mailbox, options_.waking);
  }
  std::vector<std::unique_ptr<Stream>> streams;
  for (kv::ServerNumber server = 0; server < options_.servers; ++server) {
    if (options_.transport == Transport::socket) {
      const std::string address = read_address(fabric, channel, of_servers_->of(rank_of(server)), server);
      streams.push_back(
          std::make_unique<SocketStream>(fabric, net::connect_to(address, net::SetupClock::now() + kSetUp)));
    } else {
      streams.push_back(
          std::make_unique<QueueStream>(fabric, channel, end_of_server(number, server), options_.mailbox));
    }
  }
  return std::make_unique<StreamRequests>(fabric, std::move(streams));
}

TeamTransport::Place TeamTransport::place(team::Rank client, std::uint32_t session, kv::ServerNumber server) const {
  const bool is_server = serves(client);
  team::Rank number = client;  // among the servers, or among the others
  if (is_server) {
    number -= options_.first_server;
  } else if (client > options_.first_server) {
    number -= options_.servers;
  }
  const std::uint64_t ring = std::uint64_t{number} * options_.servers + server;
  return {is_server ? of_servers_.get() : by_session_.at(session).get(), ring * options_.mailbox.ring_bytes()};
}

kv::MailboxEnd TeamTransport::end(team::Rank other, const Place& place) {
  return {.own = &place.region->local(),
          .own_offset = place.offset,
          .other = &place.region->of(other),
          .other_offset = place.offset,
          .by_memory = team_.fabric().reaches_by_memory(other)};
}

kv::MailboxEnd TeamTransport::end_of_server(std::uint32_t session, kv::ServerNumber server) {
  kv::MailboxEnd result = end(rank_of(server), place(team_.rank(), session, server));
  result.bell = of_servers_->of(rank_of(server)).word<AtomicWord>(bell_offset());
  return result;
}

std::uint64_t TeamTransport::bell_offset() const {
  return std::uint64_t{options_.servers} * options_.servers * options_.mailbox.ring_bytes();
}

}  // namespace farside::kv_baselines
