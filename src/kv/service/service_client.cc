#include "kv/service/service_client.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "base/random_bits.h"
#include "kv/protocol/time_limits.h"
#include "kv/service/system_time.h"
#include "service/service_fabric.h"
#include "service/time_limits.h"

namespace farside::kv {

namespace {

using net::SetupClock;

static_assert(service::time_limits::kFirstTry < time_limits::kTry, "an attempt ends within the time for its server");

constexpr std::string_view kNoCopyLeft =
    "of the two nodes that had its keys none that lives has all of them, as their logs say; so no copy of the keys "
    "that "
    "were there is left";

// Returns a number that no other session ever has: 64 random bits, not 0.
std::uint64_t draw_session() {
  std::uint64_t number = 0;
  while (number == 0) number = random_bits<std::uint64_t>();
  return number;
}

bool is_any(const std::vector<bool>& needed) { return std::ranges::find(needed, true) != needed.end(); }

/// `why`: it did not answer, which may pass. Server n is on node n.
Error unreached(ServerNumber server, const std::string& why) {
  const std::string number = std::to_string(server);
  return Error({"reach", "server " + number + " of the key-value store, on node " + number, why,
                "try again; farside status says whether the node is up; keys of other servers can be used"});
}

Error lost(ServerNumber server, const std::string& why) {
  const std::string number = std::to_string(server);
  return Error(
      {"reach", "server " + number + " of the key-value store, on node " + number, "it is lost: " + why,
       "keys of other servers can be used; the node serves again when it has been started again (farside status), "
       "but with --kv-copies 2, where the keys are lost, and the pool must be ended and started anew"});
}

}  // namespace

ServiceClient::ServiceClient(std::span<const std::string> entries, const net::Secret& pool,
                             std::chrono::milliseconds limit)
    : secret_(kv_secret(pool)) {
  const auto deadline = SetupClock::now() + limit;
  const auto first = service::link_to_any<ServerLink>(
      entries, secret_, deadline,
      {"reach", "a key-value server", "none is known", "start a pool with farside up --kv SIZE"});
  welcome_ = first->welcome();
  fabric_ = service::make_client_fabric(welcome_.hello, secret_, welcome_.servers);
  linked_.resize(welcome_.servers.size());
  servers_.emplace(welcome_.servers);
  standbys_.emplace(welcome_.standbys);
  Linked& linked = linked_[welcome_.self];
  linked.channel = fabric_->open_channel();
  first->join(*fabric_, *linked.channel, have_standbys(), deadline);
  ServerLink::watch(loop_, first);
  linked.seats[welcome_.seat] = first;
}

ServiceClient::~ServiceClient() { loop_.stop(); }

std::unique_ptr<Session> ServiceClient::open_session(const SessionOptions& options, std::chrono::milliseconds limit) {
  limit = std::min(limit, options.time_out);
  const auto deadline = SetupClock::now() + limit;
  const std::vector<bool> needed = needed_by(options.keys);
  const auto until = is_any(needed) ? deadline : deadline - limit + limit / time_limits::kPartForOthers;
  const SessionSettings settings{.session = draw_session(),
                                 .way = options.way,
                                 .siblings = options.siblings,
                                 .cached_keys = options.cached_keys,
                                 .grace = welcome_.grace,
                                 .wall = kSystemTime};
  for (;;) {
    PoolLinks links = reach_all(needed, until, deadline);
    links.are_all_needed = have_standbys() && SetupClock::now() < until;  // it may be about to be replaced
    try {
      return std::make_unique<ServiceSession>(
          *fabric_, std::move(links), settings, options.waking, options.time_out,
          end_of_try(std::max(until, SetupClock::now() + service::time_limits::kFirstTry)));
    } catch (const Error&) {
      if (!have_standbys() || SetupClock::now() > deadline) throw;
    }
    std::this_thread::sleep_for(time_limits::kBetweenTries);
  }
}

std::vector<std::uint32_t> ServiceClient::copies(std::chrono::milliseconds limit) {
  std::vector<std::uint32_t> copies;
  const auto deadline = SetupClock::now() + limit;
  for (const PartitionLinks& each : reach_all(needed_by({}), deadline, deadline).partitions) {
    copies.push_back((each.primary != nullptr ? 1U : 0U) + (each.standby != nullptr ? 1U : 0U));
  }
  return copies;
}

SetupClock::time_point ServiceClient::end_of_try(SetupClock::time_point deadline) const {
  return !have_standbys() ? deadline : std::min(deadline, SetupClock::now() + time_limits::kTry);
}

// Another thread that connects at the moment is not waited for.
RenewedLink ServiceClient::renew_for_session(ServerNumber partition, unsigned seat, std::uint64_t identity) {
  if (!mutex_.try_lock()) return {.was_tried = false};
  const MutexLock lock(mutex_, std::adopt_lock);
  Linked& linked = linked_[partition];
  std::shared_ptr<ServerLink>& link = linked.seats.at(seat);
  const auto is_wanted = [&] {
    return link != nullptr && !link->lost() && (identity == 0 || link->identity() == identity);
  };
  if (is_wanted()) return {link};
  if (linked.channel == nullptr) linked.channel = fabric_->open_channel();
  // Another session may have met a later one than this session was told of.
  if (link != nullptr && !link->lost() && !is_named(linked, 1 - seat, identity)) return {.was_tried = false};
  const auto now = SetupClock::now();
  Linked::Attempts& attempts = linked.attempts.at(seat);
  if (attempts.met && now - *attempts.met >= time_limits::kLasted) attempts.pauses.reset();
  if (now < attempts.next) return {};
  attempts.met.reset();
  try {
    if (link != nullptr && !link->lost()) link->mark_lost();
    link = nullptr;
    renew(linked, partition, seat, now + service::time_limits::kFirstTry, now + time_limits::kTry);
  } catch (const Error& error) {
    log::debug(error.what());
  }
  const auto then = SetupClock::now();
  attempts.next = then + attempts.pauses.next();
  if (!is_wanted()) return {};
  attempts.met = then;
  return {link};
}

bool ServiceClient::is_named(const Linked& linked, unsigned primary, std::uint64_t identity) const {
  const auto& server = linked.seats.at(primary);
  if (server == nullptr) return false;
  const Result<std::uint64_t> named = server->ask_alone(*linked.channel);
  return named.done() && named.value == identity;
}

std::vector<bool> ServiceClient::needed_by(const std::vector<std::string>& keys) const {
  std::vector<bool> needed(servers());
  for (const std::string& key : keys) needed[server_of(key_id(key), servers())] = true;
  return needed;
}

PoolLinks ServiceClient::reach_all(std::vector<bool> needed, SetupClock::time_point until,
                                   SetupClock::time_point deadline) {
  const bool is_any_needed = is_any(needed);
  PoolLinks links{std::vector<PartitionLinks>(servers()),
                  std::move(needed),
                  false,
                  have_standbys(),
                  welcome_.mailbox,
                  [this](ServerNumber partition, unsigned seat, std::uint64_t identity) {
                    return renew_for_session(partition, seat, identity);
                  }};
  const MutexLock lock(mutex_);
  std::vector<std::future<PartitionLinks>> reached(servers());
  for (ServerNumber partition = 0; partition < servers(); ++partition) {
    if (is_any_needed && !links.needed[partition]) continue;
    // The mutex is held until all threads have ended: each has its element of linked_ to itself.
    reached[partition] = std::async(
        std::launch::async, [=, this, &own = linked_[partition]] { return reach(own, partition, until, deadline); });
  }
  std::optional<Error> failed;
  bool is_any_reached = false;
  for (ServerNumber partition = 0; partition < servers(); ++partition) {
    if (!reached[partition].valid()) continue;
    try {
      links.partitions[partition] = reached[partition].get();
      is_any_reached = true;
    } catch (const Error& error) {
      failed = error;
    }
  }
  if (failed && (is_any_needed || !is_any_reached)) throw Error(*failed);
  return links;
}

// While a standby takes over, or a primary hears that its standby is dead, neither can be used alone. Where neither
// answers, or the one that does is a standby that has given up, there is nothing to wait for.
PartitionLinks ServiceClient::reach(Linked& linked, ServerNumber partition, SetupClock::time_point until,
                                    SetupClock::time_point deadline) {
  if (linked.channel == nullptr) linked.channel = fabric_->open_channel();
  for (Backoff<SetupClock::duration> times = service::attempt_times();;) {
    const SetupClock::duration time = times.next();
    std::optional<Error> failed;
    bool is_silent = false;
    // The second first: of two that say that they serve, its word counts more often.
    for (unsigned seat = have_standbys() ? 2 : 1; seat-- != 0;) {
      if (auto links = usable(linked)) return *std::move(links);
      const auto end = std::min(end_of_try(until), SetupClock::now() + time);
      try {
        renew(linked, partition, seat, end, end_of_try(until));
      } catch (const Error& error) {
        failed = error;
        is_silent = is_silent || service::may_answer_later(error, end);
      }
    }
    if (auto links = usable(linked)) return *std::move(links);
    bool any_gave_up = false;
    bool may_be_used = false;
    for (const auto& link : linked.seats) {
      if (link == nullptr || link->lost()) continue;
      const bool gave_up = link->welcome().follows() && link->ask_whether_gave_up(*linked.channel);
      (gave_up ? any_gave_up : may_be_used) = true;
    }
    const bool is_refused = !may_be_used && (failed || any_gave_up);
    const bool is_lost = is_silent ? SetupClock::now() >= until : is_refused;
    if (is_lost || SetupClock::now() > deadline) {
      if (is_lost && !is_silent) {
        throw lost(partition, any_gave_up ? std::string(kNoCopyLeft) : failed->failure().why);
      }
      throw unreached(partition, is_lost ? "it did not answer in time" : "its standby is about to take its place");
    }
    std::this_thread::sleep_for(time_limits::kBetweenTries);
  }
}

std::optional<PartitionLinks> ServiceClient::usable(Linked& linked) const {
  const auto first = serves_since(linked.seats[0].get(), *linked.channel);
  const auto second = serves_since(linked.seats[1].get(), *linked.channel);
  if (!first && !second) return std::nullopt;
  const unsigned seat = !first || second > first ? 1 : 0;
  const auto& primary = linked.seats.at(seat);
  if (!have_standbys()) return PartitionLinks{.primary = primary};
  const Result<std::uint64_t> named = primary->ask_alone(*linked.channel);
  if (named.done() && named.value == ServerLink::kIsAlone) return PartitionLinks{primary, nullptr, seat};
  std::shared_ptr<ServerLink>& standby = linked.seats.at(1 - seat);
  if (standby == nullptr || standby->lost()) return std::nullopt;
  if (!named.done() && !standby->serves_since()) return PartitionLinks{primary, standby, seat};
  if (named.done() && named.value == standby->identity()) return PartitionLinks{primary, standby, seat};
  standby->mark_lost();
  standby = nullptr;
  return std::nullopt;
}

std::optional<std::uint64_t> ServiceClient::serves_since(const ServerLink* server, Channel& channel) const {
  if (server == nullptr || server->lost()) return std::nullopt;
  const auto since = server->serves_since();
  if (since || !is_between_hosts()) return since;
  const Result<std::uint64_t> epoch = channel.load(server->epoch(), fabric_->in(time_limits::kAskStanding));
  return epoch.done() && epoch.value != 0 ? std::optional(epoch.value) : std::nullopt;
}

// If it does not answer the other servers are asked for its address: its machine may have been replaced.
void ServiceClient::renew(Linked& linked, ServerNumber partition, unsigned seat, SetupClock::time_point answer_by,
                          SetupClock::time_point deadline) {
  std::shared_ptr<ServerLink>& link = linked.seats.at(seat);
  if (link != nullptr && !link->lost()) return;
  link = nullptr;
  service::KnownAddresses& addresses = seat == 0 ? *servers_ : *standbys_;
  const std::string address = addresses.at(partition);
  std::shared_ptr<ServerLink> made;
  try {
    made = connect(address, partition, seat, answer_by);
  } catch (const Error&) {
    const auto list = seat == 0 ? &Welcome::servers : &Welcome::standbys;
    if (is_between_hosts()) service::learn_addresses<ServerLink>(addresses, partition, secret_, list);
    if (addresses.at(partition) == address) throw;
    made = connect(addresses.at(partition), partition, seat, deadline);
  }
  made->join(*fabric_, *linked.channel, have_standbys(), deadline);
  ServerLink::watch(loop_, made);
  link = std::move(made);
}

std::shared_ptr<ServerLink> ServiceClient::connect(const std::string& address, ServerNumber partition, unsigned seat,
                                                   SetupClock::time_point deadline) {
  auto made = std::make_shared<ServerLink>(address, secret_, deadline);
  const Welcome& welcome = made->welcome();
  if (welcome.self != partition || welcome.seat != seat || !servers_->learn(welcome.servers) ||
      !standbys_->learn(welcome.standbys)) {
    throw Error({"reach the key-value server at", address, "it is one of another pool", "connect again"});
  }
  return made;
}

}  // namespace farside::kv
