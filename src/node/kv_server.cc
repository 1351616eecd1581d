#include "node/kv_server.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "kv/service/sockets.h"
#include "team/environment.h"
#include "team/socket.h"

namespace farside {

namespace {

constexpr Duration kOthersLimit = std::chrono::seconds(30);
constexpr Duration kLook = std::chrono::milliseconds(5);

// What each rank has of the addresses: a word that tells how long its own is, written last, and that.
constexpr std::uint64_t kMostAddressBytes = 256;
constexpr std::uint64_t kAddressOffset = sizeof(ControlWord);

std::string environment(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr) throw Error({"serve keys and values", "in a node", std::string(variable) + " is not set", ""});
  return value;
}

bool on_several_machines() { return !is_host_local(environment(kCoordinatorVariable)); }

std::string own_address(Rank rank) {
  const std::string meeting = environment(kCoordinatorVariable);
  const std::size_t digits = meeting.rfind(':') + 1;
  unsigned port = 0;
  std::from_chars(meeting.data() + digits, meeting.data() + meeting.size(), port);
  return own_host_towards(meeting) + ":" + std::to_string(port + 1 + rank);
}

std::unique_ptr<SymmetricRegion> tell_address(Team& team) {
  if (!on_several_machines()) return nullptr;
  auto addresses = team.allocate("kv addresses", kAddressOffset + kMostAddressBytes);
  const std::string own = own_address(team.rank());
  addresses->local().copy_in(kAddressOffset, std::as_bytes(std::span(own)));
  addresses->local().word<ControlWord>(0).store(own.size());
  return addresses;
}

/// Waits until the rank has told it.
std::string address_of(Team& team, const SymmetricRegion& addresses, Rank rank) {
  const auto channel = team.fabric().open_channel();
  const Deadline deadline = team.fabric().in(kOthersLimit);
  const RemoteRegion& told = addresses.of(rank);
  for (;;) {
    const Fetched bytes = channel->load(told.word<ControlWord>(0), deadline);
    std::string address(bytes.done() && bytes.value <= kMostAddressBytes ? bytes.value : 0, '\0');
    const LocalSpan into(address.data(), address.size());
    if (!address.empty() && channel->read(into, told.span(kAddressOffset, address.size()), deadline) == Outcome::done) {
      return address;
    }
    if (!bytes.done() || team.fabric().now() > deadline.at) {
      throw Error({"learn where", "node " + std::to_string(rank) + " serves keys and values", "it does not tell",
                   "start all nodes with the same --kv"});
    }
    team.fabric().sleep(kLook);
  }
}

kv::ServiceOptions options_of(const PoolDirectory& pool, Team& team, const SymmetricRegion* addresses,
                              const KvNodeOptions& node) {
  kv::ServiceOptions options;
  options.self = team.rank();
  options.remote_peers = addresses != nullptr;
  options.store.bytes = node.bytes;
  options.journal = node.journal;
  if (node.journal) options.journal->directory += "/server-" + std::to_string(team.rank());
  for (Rank rank = 0; rank < team.size(); ++rank) {
    options.servers.push_back(addresses == nullptr ? kv::server_socket(pool.path(), rank).string()
                                                   : address_of(team, *addresses, rank));
  }
  options.listen = {kv::server_socket(pool.path(), options.self)};
  if (addresses != nullptr) options.listen.push_back(options.servers.at(options.self));
  return options;
}

}  // namespace

KvServer::Running::Running(const kv::ServiceOptions& options, const Secret& secret)
    : service_(options, secret), thread_([this](const std::stop_token& stop) {
        const std::stop_callback wake(stop, [this] { service_.wake(); });
        service_.serve_until([&stop] { return stop.stop_requested(); });
      }) {}

KvServer::KvServer(const PoolDirectory& pool, Team& team, const KvNodeOptions& options)
    : addresses_(tell_address(team)) {
  const kv::ServiceOptions service = options_of(pool, team, addresses_.get(), options);
  if (options.copies > 1) {
    serve_copies(service, pool, team);
  } else {
    primary_ = std::make_unique<Running>(service, Secret::load(environment(kSecretFileVariable)));
  }
}

// The standby first: its primary, on another node, waits for it.
void KvServer::serve_copies(const kv::ServiceOptions& options, const PoolDirectory& pool, Team& team) {
  if (team.incarnation() != 0) {
    log::warn("this node was started again and takes no part in the key-value store: what it had has one copy now");
    return;
  }
  const Rank rank = team.rank();
  const Rank before = (rank + team.size() - 1) % team.size();
  predecessor_.emplace(team, before);
  successor_.emplace(team, (rank + 1) % team.size());
  const Secret secret = Secret::load(environment(kSecretFileVariable));
  kv::ServiceOptions primary = options;
  for (Rank each = 0; each < team.size(); ++each) {
    primary.replica.standbys.push_back(kv::standby_socket(pool.path(), each));
  }
  primary.replica.is_other_dead = [this] { return successor_->has_died(); };
  kv::ServiceOptions standby = primary;
  standby.self = before;
  standby.listen = {kv::standby_socket(pool.path(), before)};
  standby.replica.is_standby = true;
  standby.replica.is_other_dead = [this] { return predecessor_->has_died(); };
  standby_ = std::make_unique<Running>(standby, secret);
  primary_ = std::make_unique<Running>(primary, secret);
}

}  // namespace farside
