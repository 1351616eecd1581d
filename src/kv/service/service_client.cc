#include "kv/service/service_client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <sys/random.h>

#include "farside/base/error.h"

#include "kv/protocol/standby.h"
#include "kv/service/wall_time.h"

namespace farside::kv {

namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(10);
constexpr auto kTry = std::chrono::seconds(1);  // with a server of which nobody knows yet that it is gone
constexpr Duration kAsk = std::chrono::seconds(1);

// One that no other session ever has: 64 random bits. 0 is nobody.
std::uint64_t draw_session() {
  std::uint64_t number = 0;
  while (number == 0) {
    if (::getrandom(&number, sizeof number, 0) != sizeof number)
      throw errno_error("draw random bits from", "the kernel");
  }
  return number;
}

// A region that nobody has: what is posted there fails.
std::unique_ptr<RemoteRegion> nowhere(PeerId peer, std::uint64_t bytes) {
  return std::make_unique<RemoteRegion>("a server that is gone", peer, bytes, nullptr, nullptr);
}

}  // namespace

// ---- A session

SessionLinks::SessionLinks(Fabric& fabric, PoolLinks links, Waking waking, SetupClock::time_point deadline)
    : SessionLinks(std::move(links)) {
  const std::uint64_t ring_bytes = shape().ring_bytes();
  std::vector<std::shared_ptr<ServerLink>> seats;
  for (const PartitionLinks& each : links_.partitions) seats.push_back(each.primary);
  if (links_.epochs != nullptr) {
    for (const PartitionLinks& each : links_.partitions) seats.push_back(each.standby);
  }
  rings_ = fabric.create_region("kv replies", seats.size() * ring_bytes);
  for (std::uint64_t offset = 0; const auto& link : seats) {
    Seat& seat = seats_.emplace_back();
    seat.link = link;
    if (link != nullptr) {
      seat.mailbox = link->open(*rings_, offset, waking, deadline);
    } else {
      seat.mailbox.ring = nowhere(static_cast<PeerId>(seats_.size() - 1), ring_bytes);
      seat.mailbox.end = {.own = rings_.get(),
                          .own_offset = offset,
                          .other = seat.mailbox.ring.get(),
                          .other_offset = 0,
                          .bell = seat.mailbox.ring->word<AtomicWord>(0)};
    }
    offset += ring_bytes;
  }
  for (const PartitionLinks& each : links_.partitions) {
    memories_.push_back(each.primary == nullptr ? ServerMemory{} : each.primary->memory());
  }
}

SessionLinks::~SessionLinks() {
  for (const Seat& seat : seats_) {
    if (seat.link != nullptr) seat.link->close(seat.mailbox.number);
  }
}

std::vector<MailboxEnd> SessionLinks::ends() const {
  std::vector<MailboxEnd> ends;
  for (const Seat& seat : seats_) ends.push_back(seat.mailbox.end);
  return ends;
}

std::unique_ptr<Homes> SessionLinks::homes(Fabric& fabric, Channel& channel) const {
  if (links_.epochs == nullptr) return nullptr;
  std::vector<Homes::Home> homes;
  for (ServerNumber partition = 0; partition < links_.partitions.size(); ++partition) {
    const auto& [primary, standby] = links_.partitions[partition];
    homes.push_back({.primary = memories_[partition],
                     .standby = standby == nullptr ? ServerMemory{} : standby->memory(),
                     .primary_peer = primary == nullptr ? partition : primary->peer(),
                     .epoch_when_asked = primary == nullptr ? Standby::kEpoch : 0,
                     .epoch = links_.epochs->word<ControlWord>(partition * sizeof(ControlWord))});
    const bool is_between_hosts = standby != nullptr && standby->welcome().greeting.remote_peers;
    if (is_between_hosts && primary != nullptr) homes.back().lender = Homes::Lender{standby->epoch(), primary->alone()};
  }
  const auto how_is_standby = [this, &channel](ServerNumber partition) {
    const auto& [primary, standby] = links_.partitions[partition];
    if (standby == nullptr) return Homes::StandbyIs::gone;
    if (!standby->lost()) return Homes::StandbyIs::joined;
    return primary != nullptr && primary->is_alone(channel) ? Homes::StandbyIs::gone : Homes::StandbyIs::away;
  };
  return std::make_unique<Homes>(fabric, channel, std::move(homes), how_is_standby);
}

SessionParts::SessionParts(Fabric& fabric, PoolLinks to, const SessionSettings& settings, Waking waking,
                           SetupClock::time_point deadline)
    : links(fabric, std::move(to), waking, deadline),
      channel(fabric.open_channel()),
      seats(fabric, *channel, links.ends(), links.shape(), waking),
      homes(links.homes(fabric, *channel)),
      homed(homes == nullptr ? std::nullopt : std::optional<HomedRequests>(std::in_place, fabric, *homes, seats)),
      session(fabric, *channel, homed ? static_cast<Requests&>(*homed) : seats,
              homes == nullptr ? links.memories() : homes->memories(), settings, {}, homes.get()) {}

// ---- The client

ServiceClient::ServiceClient(std::span<const std::string> entries, const Secret& pool, std::chrono::milliseconds limit)
    : secret_(kv_secret(pool)) {
  const auto deadline = SetupClock::now() + limit;
  const auto first = link_to_any<ServerLink>(
      entries, secret_, deadline,
      {"reach", "a key-value server", "none is known", "start a pool with farside up --kv SIZE"});
  welcome_ = first->welcome();
  fabric_ = make_host_fabric({.mode = welcome_.greeting.mode, .remote_peers = welcome_.greeting.remote_peers});
  asking_ = fabric_->open_channel();
  links_.resize(welcome_.servers.size());
  if (!welcome_.standbys.empty()) {
    epochs_ = fabric_->create_region("kv epochs", links_.size() * sizeof(ControlWord));
  }
  first->join(*fabric_, epochs_.get(), deadline);
  ServerLink::watch(loop_, first);
  (welcome_.is_standby ? links_[welcome_.self].standby : links_[welcome_.self].primary) = first;
  for (ServerNumber partition = 0; partition < servers(); ++partition) (void)reach(partition, deadline);
}

ServiceClient::~ServiceClient() { loop_.stop(); }

std::unique_ptr<Session> ServiceClient::open_session(const SessionOptions& options, std::chrono::milliseconds limit) {
  const auto deadline = SetupClock::now() + limit;
  const SessionSettings settings{.session = draw_session(),
                                 .way = options.way,
                                 .siblings = options.siblings,
                                 .cached_keys = options.cached_keys,
                                 .grace = welcome_.grace,
                                 .ahead = wall_ahead_of(*fabric_)};
  for (;;) {
    try {
      PoolLinks links = reach_all(deadline);
      return std::make_unique<ServiceSession>(*fabric_, std::move(links), settings, options.waking, options.time_out,
                                              end_of_try(deadline));
    } catch (const Error&) {
      if (epochs_ == nullptr || SetupClock::now() > deadline) throw;
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

std::vector<std::uint32_t> ServiceClient::copies(std::chrono::milliseconds limit) {
  std::vector<std::uint32_t> copies;
  for (const auto& [primary, standby] : reach_all(SetupClock::now() + limit).partitions) {
    copies.push_back(primary != nullptr && standby != nullptr ? 2 : 1);
  }
  return copies;
}

SetupClock::time_point ServiceClient::end_of_try(SetupClock::time_point deadline) const {
  return epochs_ == nullptr ? deadline : std::min(deadline, SetupClock::now() + kTry);
}

PoolLinks ServiceClient::reach_all(SetupClock::time_point deadline) {
  PoolLinks links{{}, epochs_.get(), welcome_.mailbox};
  const std::lock_guard lock(mutex_);
  for (ServerNumber partition = 0; partition < servers(); ++partition) {
    links.partitions.push_back(reach(partition, deadline));
  }
  return links;
}

// While a standby takes over, or a primary hears that its standby is dead, neither can be used alone.
PartitionLinks ServiceClient::reach(ServerNumber partition, SetupClock::time_point deadline) {
  PartitionLinks& links = links_[partition];
  for (;;) {
    std::optional<Error> failed;
    const auto try_to_renew = [&](std::shared_ptr<ServerLink>& link, const std::vector<std::string>& addresses) {
      try {
        renew(link, addresses.at(partition), partition, end_of_try(deadline));
      } catch (const Error& error) {
        failed = error;
      }
    };
    if (epochs_ != nullptr && is_alone(links)) return {links.primary, nullptr};
    if (epochs_ != nullptr) try_to_renew(links.standby, welcome_.standbys);
    if (links.standby != nullptr && serves(*links.standby)) return {nullptr, links.standby};
    try_to_renew(links.primary, welcome_.servers);
    if (epochs_ != nullptr && is_alone(links)) return {links.primary, nullptr};
    if (links.primary != nullptr && (epochs_ == nullptr || links.standby != nullptr)) return links;
    if (epochs_ == nullptr || SetupClock::now() > deadline) {
      if (failed) throw Error(*failed);
      throw Error({"reach", "server " + std::to_string(partition), "it is being replaced by its standby", "try again"});
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

bool ServiceClient::is_alone(const PartitionLinks& links) const {
  return links.primary != nullptr && !links.primary->lost() && links.primary->is_alone(*asking_);
}

bool ServiceClient::serves(const ServerLink& standby) const {
  const std::uint64_t told = epochs_->word<ControlWord>(standby.welcome().self * sizeof(ControlWord)).load();
  if (told != 0 || standby.epoch_when_joined() != 0) return true;
  if (!is_between_hosts()) return false;
  const Fetched epoch = asking_->load(standby.epoch(), fabric_->in(kAsk));
  return epoch.done() && epoch.value != 0;
}

void ServiceClient::renew(std::shared_ptr<ServerLink>& link, const std::string& address, ServerNumber server,
                          SetupClock::time_point deadline) {
  if (link != nullptr && !link->lost()) return;
  link = nullptr;
  auto made = std::make_shared<ServerLink>(address, secret_, deadline);
  if (made->welcome().self != server || made->welcome().servers != welcome_.servers) {
    throw Error({"reach the key-value server at", address, "it is one of another pool", "connect again"});
  }
  made->join(*fabric_, epochs_.get(), deadline);
  ServerLink::watch(loop_, made);
  link = std::move(made);
}

}  // namespace farside::kv
