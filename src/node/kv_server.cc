#include "node/kv_server.h"

#include <string>

#include "farside/base/error.h"
#include "farside/base/log.h"

namespace farside::node {

namespace {

// farside up waits for a node as long as this goes on.
kv::RecoveryProgress recorded_in(const PoolDirectory& pool, team::Rank rank) {
  return [&pool, rank](std::uint64_t bytes) {
    try {
      pool.write_recovered(rank, bytes);
    } catch (const Error& error) {
      log::warn(std::string("farside up may give up on this node, which is reading its journal: ") + error.what());
    }
  };
}

kv::ServiceOptions options_of(const PoolDirectory& pool, const ServiceAddresses& addresses, const team::Team& team,
                              const KvNodeOptions& node) {
  const team::Rank rank = team.rank();
  kv::ServiceOptions options;
  options.self = rank;
  options.longest_silence = team.longest_silence();
  options.servers = [&addresses] { return addresses.all(); };
  options.listen = addresses.own();
  options.remote_peers = addresses.on_several_machines();
  options.store.bytes = node.bytes;
  options.journal = node.journal;
  if (node.journal) {
    options.journal->directory += "/server-" + std::to_string(rank);
    options.journal->on_recovery = recorded_in(pool, rank);
  }
  return options;
}

}  // namespace

KvServer::Running::Running(const kv::ServiceOptions& options, const net::Secret& secret)
    : service_(options, secret), thread_([this](const std::stop_token& stop) {
        const std::stop_callback wake(stop, [this] { service_.wake(); });
        service_.serve_until([&stop] { return stop.stop_requested(); });
      }) {}

KvServer::KvServer(const PoolDirectory& pool, team::Team& team, const KvNodeOptions& options)
    : addresses_(pool, team, kv::kServiceName, 1) {
  const kv::ServiceOptions service = options_of(pool, addresses_, team, options);
  if (options.copies > 1) {
    standbys_.emplace(pool, team, kv::kStandbyName, 1 + 2 * team.size());  // after kv's ports, and those of far
    serve_copies(service, team);
  } else {
    primary_ = std::make_unique<Running>(service, pool_secret());
  }
}

// The standby first: its primary, on another node, waits for it.
void KvServer::serve_copies(const kv::ServiceOptions& options, team::Team& team) {
  if (team.incarnation() != 0) {
    log::warn(
        "this node was started again and has no part in the key-value store until the pool is started again; "
        "farside status says what there still is a copy of");
    return;
  }
  const team::Rank size = team.size();
  const auto standby_of = [size](team::Rank rank) { return (rank + 1) % size; };
  const net::Secret secret = pool_secret();
  kv::ServiceOptions primary = options;
  for (team::Rank each = 0; each < size; ++each) {
    primary.replica.standbys.push_back(standbys_->all().at(standby_of(each)));
  }
  primary.replica.is_primary_dead = [&team](team::Rank rank) { return team.has_died(rank); };
  primary.replica.is_standby_dead = [&team, standby_of](team::Rank rank) { return team.has_died(standby_of(rank)); };
  kv::ServiceOptions standby = primary;
  standby.self = (team.rank() + size - 1) % size;
  standby.listen = standbys_->own();
  standby.replica.is_standby = true;
  standby_ = std::make_unique<Running>(standby, secret);
  primary_ = std::make_unique<Running>(primary, secret);
}

}  // namespace farside::node
