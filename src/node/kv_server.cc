#include "node/kv_server.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

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
  options.replica.min_copies = node.min_copies;
  options.replica.copy_bytes_per_second = node.copy_rate;
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
    first_ = std::make_unique<Running>(service, pool_secret());
  }
}

// The standby first: its primary, on another node, waits for it. A node that was started again begins with nothing in
// both of its seats: of the two partitions it was one server, and the other one teaches it what there is.
void KvServer::serve_copies(const kv::ServiceOptions& options, team::Team& team) {
  const team::Rank size = team.size();
  const auto rank_of = [size](kv::ServerNumber partition, unsigned seat) { return (partition + seat) % size; };
  const net::Secret secret = pool_secret();
  kv::ServiceOptions first = options;
  first.replica.standbys = [&addresses = *standbys_] {  // by partition, of those that are known by rank
    std::vector<std::string> all = addresses.all();
    std::rotate(all.begin(), all.begin() + 1, all.end());
    return all;
  };
  first.replica.incarnation = team.incarnation();
  first.replica.has_nothing = team.incarnation() != kFirstIncarnation;
  first.replica.is_dead = [&team, rank_of](kv::ServerNumber partition, unsigned seat, std::uint16_t incarnation) {
    return team.has_died(rank_of(partition, seat), incarnation);
  };
  kv::ServiceOptions second = first;
  second.replica.seat = 1;
  second.self = (team.rank() + size - 1) % size;
  second.listen = standbys_->own();
  second_ = std::make_unique<Running>(second, secret);
  first_ = std::make_unique<Running>(first, secret);
  if (first.replica.has_nothing) {
    log::warn("this node was started again: the nodes beside it give it copies of its keys, and of theirs");
  }
}

}  // namespace farside::node
