#include "node/kv_server.h"

#include <string>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "team/service_socket.h"

namespace farside {

namespace {

kv::ServiceOptions options_of(const ServiceAddresses& addresses, Rank rank, const KvNodeOptions& node) {
  kv::ServiceOptions options;
  options.self = rank;
  options.servers = addresses.all();
  options.listen = addresses.own();
  options.remote_peers = addresses.on_several_machines();
  options.store.bytes = node.bytes;
  options.journal = node.journal;
  if (node.journal) options.journal->directory += "/server-" + std::to_string(rank);
  return options;
}

}  // namespace

KvServer::Running::Running(const kv::ServiceOptions& options, const Secret& secret)
    : service_(options, secret), thread_([this](const std::stop_token& stop) {
        const std::stop_callback wake(stop, [this] { service_.wake(); });
        service_.serve_until([&stop] { return stop.stop_requested(); });
      }) {}

KvServer::KvServer(const PoolDirectory& pool, Team& team, const KvNodeOptions& options)
    : addresses_(pool, team, kv::kServiceName, 1) {
  const kv::ServiceOptions service = options_of(addresses_, team.rank(), options);
  if (options.copies > 1) {
    serve_copies(service, pool, team);
  } else {
    primary_ = std::make_unique<Running>(service, pool_secret());
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
  const Secret secret = pool_secret();
  kv::ServiceOptions primary = options;
  for (Rank each = 0; each < team.size(); ++each) {
    primary.replica.standbys.push_back(service_socket(pool.path(), kv::kStandbyName, each));
  }
  primary.replica.is_other_dead = [this] { return successor_->has_died(); };
  kv::ServiceOptions standby = primary;
  standby.self = before;
  standby.listen = {service_socket(pool.path(), kv::kStandbyName, before)};
  standby.replica.is_standby = true;
  standby.replica.is_other_dead = [this] { return predecessor_->has_died(); };
  standby_ = std::make_unique<Running>(standby, secret);
  primary_ = std::make_unique<Running>(primary, secret);
}

}  // namespace farside
