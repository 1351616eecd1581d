#include "node/kv_server.h"

#include <chrono>
#include <string>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

namespace farside::node {

namespace {

constexpr std::chrono::seconds kBetweenBeginnings{1};

/// The incarnation of a node that has the part in the store which it had when the pool was started.
constexpr std::uint16_t kFirstIncarnation = 0;

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
    : options_(options),
      secret_(secret),
      service_(std::make_unique<kv::Service>(options, secret)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void KvServer::Running::run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    if (service_ != nullptr) service_->wake();
  });
  while (kv::Service* service = present()) {
    service->serve_until([&] { return stop.stop_requested() || service->is_of_no_use(); });
    if (stop.stop_requested()) return;
    begin_anew(stop);
  }
}

// It is changed by this thread alone.
kv::Service* KvServer::Running::present() {
  const MutexLock lock(mutex_);
  return service_.get();
}

void KvServer::Running::begin_anew(const std::stop_token& stop) {
  std::unique_ptr<kv::Service> former;
  {
    const MutexLock lock(mutex_);
    former = std::move(service_);
  }
  former.reset();  // its sockets are the next one's
  options_.replica.has_nothing = true;
  for (std::unique_ptr<kv::Service> next; !stop.stop_requested();) {
    try {
      next = std::make_unique<kv::Service>(options_, secret_);
    } catch (const Error& error) {
      log::warn(std::string("there is no standby here yet: ") + error.what());
    }
    MutexLock lock(mutex_);
    service_ = std::move(next);
    if (service_ != nullptr) return;
    (void)ends_.wait_for(lock, stop, kBetweenBeginnings, [] { return false; });
  }
}

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

// The standby first: its primary, on another node, waits for it. A node that was started again has no part of its own:
// its successor serves what it had.
void KvServer::serve_copies(const kv::ServiceOptions& options, team::Team& team) {
  const team::Rank size = team.size();
  const auto standby_of = [size](team::Rank rank) { return (rank + 1) % size; };
  const net::Secret secret = pool_secret();
  kv::ServiceOptions primary = options;
  for (team::Rank each = 0; each < size; ++each) {
    primary.replica.standbys.push_back(standbys_->all().at(standby_of(each)));
  }
  primary.replica.incarnation = team.incarnation();
  primary.replica.is_primary_dead = [&team](team::Rank rank) { return team.has_died(rank, kFirstIncarnation); };
  primary.replica.is_standby_dead = [&team, standby_of](team::Rank rank, std::uint16_t incarnation) {
    return team.has_died(standby_of(rank), incarnation);
  };
  kv::ServiceOptions standby = primary;
  standby.self = (team.rank() + size - 1) % size;
  standby.listen = standbys_->own();
  standby.replica.is_standby = true;
  standby.replica.has_nothing = team.incarnation() != kFirstIncarnation;
  standby_ = std::make_unique<Running>(standby, secret);
  if (team.incarnation() == kFirstIncarnation) {
    primary_ = std::make_unique<Running>(primary, secret);
    return;
  }
  log::warn(
      "this node was started again: the node before it gives it a copy of its keys; those that this node had have "
      "one copy, on the next node, until the pool is started again");
}

}  // namespace farside::node
