#include "kv/service/service_client.h"

#include <utility>

#include <sys/random.h>

#include "farside/base/error.h"

#include "kv/service/wall_time.h"

namespace farside::kv {

namespace {

// One that no other session ever has: 64 random bits. 0 is nobody.
std::uint64_t draw_session() {
  std::uint64_t number = 0;
  while (number == 0) {
    if (::getrandom(&number, sizeof number, 0) != sizeof number)
      throw errno_error("draw random bits from", "the kernel");
  }
  return number;
}

std::shared_ptr<ServerLink> link_to_any(std::span<const std::string> entries, const Secret& secret,
                                        SetupClock::time_point deadline) {
  std::optional<Error> failed;
  for (const std::string& entry : entries) {
    try {
      return std::make_shared<ServerLink>(entry, secret, deadline);
    } catch (const Error& error) {
      failed = error;
    }
  }
  if (failed) throw Error(*failed);
  throw Error({"reach", "a key-value server", "none is known", "start a pool with farside up --kv SIZE"});
}

}  // namespace

// ---- A session

SessionLinks::SessionLinks(Fabric& fabric, ServerLinks links, Waking waking, SetupClock::time_point deadline)
    : SessionLinks(std::move(links)) {
  const std::uint64_t ring_bytes = shape().ring_bytes();
  rings_ = fabric.create_region("kv replies", links_.size() * ring_bytes);
  for (const auto& link : links_) {
    opened_.push_back(link->open(*rings_, opened_.size() * ring_bytes, waking, deadline));
    memories_.push_back(link->memory());
  }
}

SessionLinks::~SessionLinks() {
  for (std::size_t server = 0; server < opened_.size(); ++server) links_[server]->close(opened_[server].number);
}

std::vector<MailboxEnd> SessionLinks::ends() const {
  std::vector<MailboxEnd> ends;
  for (const ServerLink::Mailbox& mailbox : opened_) ends.push_back(mailbox.end);
  return ends;
}

SessionParts::SessionParts(Fabric& fabric, ServerLinks to, const SessionSettings& settings, Waking waking,
                           SetupClock::time_point deadline)
    : links(fabric, std::move(to), waking, deadline),
      channel(fabric.open_channel()),
      requests(fabric, *channel, links.ends(), links.shape(), waking),
      session(fabric, *channel, requests, links.memories(), settings) {}

// ---- The client

ServiceClient::ServiceClient(std::span<const std::string> entries, const Secret& pool, std::chrono::milliseconds limit)
    : secret_(kv_secret(pool)) {
  const auto deadline = SetupClock::now() + limit;
  const auto first = link_to_any(entries, secret_, deadline);
  const Welcome& welcome = first->welcome();
  addresses_ = welcome.servers;
  fabric_ = make_host_fabric({.mode = welcome.greeting.mode, .remote_peers = welcome.greeting.remote_peers});
  first->join(*fabric_, deadline);
  ServerLink::watch(loop_, first);
  links_.resize(addresses_.size());
  links_[welcome.self] = first;
  for (ServerNumber server = 0; server < servers(); ++server) (void)link_to(server, deadline);
}

ServiceClient::~ServiceClient() { loop_.stop(); }

std::unique_ptr<Session> ServiceClient::open_session(const SessionOptions& options, std::chrono::milliseconds limit) {
  const auto deadline = SetupClock::now() + limit;
  ServerLinks links;
  {
    const std::lock_guard lock(mutex_);
    for (ServerNumber server = 0; server < servers(); ++server) links.push_back(link_to(server, deadline));
  }
  const SessionSettings settings{.session = draw_session(),
                                 .way = options.way,
                                 .siblings = options.siblings,
                                 .cached_keys = options.cached_keys,
                                 .grace = links.front()->welcome().grace,
                                 .ahead = wall_ahead_of(*fabric_)};
  return std::make_unique<ServiceSession>(*fabric_, std::move(links), settings, options.waking, options.time_out,
                                          deadline);
}

std::shared_ptr<ServerLink> ServiceClient::link_to(ServerNumber server, SetupClock::time_point deadline) {
  std::shared_ptr<ServerLink>& link = links_[server];
  if (link != nullptr && !link->lost()) return link;
  auto made = std::make_shared<ServerLink>(addresses_[server], secret_, deadline);
  if (made->welcome().self != server || made->welcome().servers != addresses_) {
    throw Error({"reach the key-value server at", addresses_[server], "it is one of another pool", "connect again"});
  }
  made->join(*fabric_, deadline);
  ServerLink::watch(loop_, made);
  return link = std::move(made);
}

}  // namespace farside::kv
