#include "kv/service/other_servers.h"

#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "kv/protocol/time_limits.h"
#include "service/time_limits.h"

namespace farside::kv {

static_assert(time_limits::kConnect < service::time_limits::kHandshake,
              "a server gives up another one that hangs before the handshake does");

OtherServers::OtherServers(net::EventLoop& loop, Fabric& fabric, Channel& channel, TaskQueue& tasks,
                           const net::Secret& secret, service::AddressesNow addresses, service::AddressesNow standbys,
                           IsDead is_dead, const MailboxShape& shape)
    : loop_(loop),
      fabric_(fabric),
      channel_(channel),
      tasks_(tasks),
      secret_(secret),
      addresses_(std::move(addresses)),
      standbys_(std::move(standbys)),
      is_dead_(std::move(is_dead)),
      shape_(shape),
      asked_(addresses_().size()),
      connector_([this](const std::stop_token& stop) { connect_when_wanted(stop); }) {}

OtherServers::~OtherServers() = default;

// The socket of a server on a host that is cut off stays open for a while.
bool OtherServers::reaches(ServerNumber server) const {
  const auto& line = asked_.at(server).line;
  return line != nullptr && !line->link->lost() && !is_dead(*line->link);
}

bool OtherServers::is_dead(const ServerLink& link) const {
  const Welcome& welcome = link.welcome();
  return standbys_ && is_dead_(welcome.self, welcome.seat, welcome.incarnation);
}

Outcome OtherServers::send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) {
  Asked& asked = asked_.at(server);
  if (!reaches(server)) {
    if (asked.line != nullptr && !asked.line->link->lost()) asked.line->link->mark_lost();  // the next may be its peer
    if (!std::exchange(asked.connecting, true)) {
      const MutexLock lock(mutex_);
      wanted_.push_back(server);
      changed_.notify_all();
    }
    return Outcome::peer_lost;
  }
  const Outcome sent = asked.line->requests->send(0, request, deadline);
  if (sent == Outcome::done) ++asked.unanswered;
  return sent;
}

Result<Message> OtherServers::receive(ServerNumber server, Deadline deadline) {
  Asked& asked = asked_.at(server);
  if (asked.failed != 0) {
    --asked.failed;
    return {Outcome::peer_lost, {}};
  }
  assert_that(asked.unanswered != 0, "a reply is received when a question is unanswered");
  --asked.unanswered;
  return asked.line->requests->receive(0, deadline);
}

bool OtherServers::has_reply(ServerNumber server) {
  Asked& asked = asked_.at(server);
  return asked.failed != 0 || (asked.unanswered != 0 && asked.line->requests->has_reply(0));
}

// ---- Connecting

void OtherServers::connect_when_wanted(const std::stop_token& stop) {
  for (;;) {
    ServerNumber server = 0;
    {
      MutexLock lock(mutex_);
      if (!changed_.wait(lock, stop, [this]() REQUIRES(mutex_) { return !wanted_.empty(); })) return;
      server = wanted_.front();
      wanted_.pop_front();
    }
    std::shared_ptr<Line> line;  // shared, for tasks are copied
    try {
      line = std::make_shared<Line>(connect(server));
    } catch (const Error& error) {  // when there is something to ask again, it is tried again
      log::info(error.what());
    }
    tasks_.post([this, server, line] {
      asked_[server].connecting = false;
      if (line != nullptr) take(asked_[server], std::move(*line));
    });
  }
}

OtherServers::Line OtherServers::connect(ServerNumber server) {
  auto link = link_to(server);
  auto ring = fabric_.create_region("kv replies of server " + std::to_string(server), shape_.ring_bytes());
  auto mailbox = link->open(*ring, 0, Waking::doorbell, net::SetupClock::now() + time_limits::kConnect);
  ServerLink::watch(loop_, link);
  return {std::move(link), std::move(ring), std::move(mailbox)};
}

// A primary's reply about a transaction's end is in its standby's memory, too; so it may be asked as long as it
// answers.
std::shared_ptr<ServerLink> OtherServers::link_to(ServerNumber server) {
  std::vector<std::string> seats{addresses_().at(server)};
  if (standbys_) seats.push_back(standbys_().at(server));
  for (const std::string& address : seats) {
    try {
      auto link = link_to(address);
      if (link->serves_since() && !is_dead(*link)) return link;
    } catch (const Error&) {
      if (seats.size() == 1) throw;
    }
  }
  throw Error({"reach", "server " + std::to_string(server), "neither of the partition's two servers serves now", ""});
}

std::shared_ptr<ServerLink> OtherServers::link_to(const std::string& address) {
  const auto deadline = net::SetupClock::now() + time_limits::kConnect;
  auto link = std::make_shared<ServerLink>(address, secret_, deadline);
  link->join(fabric_, *fabric_.open_channel(), false, deadline);
  return link;
}

void OtherServers::take(Asked& asked, Line line) {
  asked.failed += std::exchange(asked.unanswered, 0);
  asked.line = std::make_unique<Line>(std::move(line));
  asked.line->requests = std::make_unique<MailboxRequests>(
      fabric_, channel_, std::vector<MailboxEnd>{asked.line->mailbox.end}, shape_, Waking::doorbell);
}

}  // namespace farside::kv
