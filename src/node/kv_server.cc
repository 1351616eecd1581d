#include "node/kv_server.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "node/time_limits.h"

namespace farside::node {

namespace {

constexpr std::chrono::seconds kBetweenBeginnings{1};
constexpr std::chrono::seconds kMaxBetweenBeginnings{60};

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

std::string directory_of(const kv::JournalSettings& journal, kv::ServerNumber partition, unsigned seat) {
  return journal.directory + "/server-" + std::to_string(partition) + (seat == 0 ? "" : "-copy-2");
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
    options.journal->directory = directory_of(*node.journal, rank, 0);
    options.journal->on_recovery = recorded_in(pool, rank);
  }
  return options;
}

}  // namespace

KvServer::Running::Running(const kv::ServiceOptions& options, const net::Secret& secret)
    : options_(options),
      secret_(secret),
      between_beginnings_(kBetweenBeginnings, kMaxBetweenBeginnings),
      service_(has_disk() ? nullptr : std::make_unique<kv::Service>(options, secret)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void KvServer::Running::run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    if (service_ != nullptr) service_->wake();
  });
  if (has_disk()) begin(false, stop);
  while (!stop.stop_requested()) {
    kv::Service& service = present();
    bool goes_on = false;
    bool is_settled = !has_disk() || options_.replica.goes_on;
    service.serve_until([&] {
      if (!is_settled) {
        is_settled = !service.waits();
        goes_on = is_successor(service);
      }
      if (service.is_full_standby()) between_beginnings_.reset();
      return stop.stop_requested() || goes_on || service.is_of_no_use();
    });
    if (stop.stop_requested()) return;
    if (has_disk() && service.has_given_up()) pause(stop);  // another copy may come to the same end
    begin(goes_on, stop);
  }
}

bool KvServer::Running::is_successor(const kv::Service& service) {
  if (!service.waits()) note(Beginning::known);
  const auto& succession = service.succession();
  if (!succession) return false;
  if (succession->successor == kv::Successor::neither) {
    note(Beginning::failed, succession->claims);
    return false;
  }
  const auto own = options_.replica.seat == 0 ? kv::Successor::first_seat : kv::Successor::second_seat;
  if (succession->successor == own) return true;
  note(Beginning::known);
  return false;
}

void KvServer::Running::note(Beginning beginning, std::string why) {
  const MutexLock lock(mutex_);
  if (beginning == beginning_ && why == why_failed_) return;
  beginning_ = beginning;
  why_failed_ = std::move(why);
  if (beginning == Beginning::failed) {
    log::error("no server goes on with the keys of server " + std::to_string(options_.self) + ": " + why_failed_);
  }
  noted_.notify_all();
}

void KvServer::Running::await_succession() {
  MutexLock lock(mutex_);
  const auto is_over = [this]() REQUIRES(mutex_) { return beginning_ >= Beginning::known; };
  const auto has_begun = [this]() REQUIRES(mutex_) { return beginning_ >= Beginning::under_way; };
  if (!noted_.wait_for(lock, time_limits::kSuccession, has_begun)) {
    return log::warn("the other server of the keys of server " + std::to_string(options_.self) +
                     " does not answer yet; it may be reading its journal");
  }
  noted_.wait(lock, is_over);
  if (beginning_ != Beginning::failed) return;
  throw Error({"start", "server " + std::to_string(options_.self) + " of the key-value store", why_failed_,
               "bring back the directory or the machine that is missing, or give up what it may have: farside kv "
               "recover"});
}

// It is changed by this thread alone.
kv::Service& KvServer::Running::present() {
  const MutexLock lock(mutex_);
  return *service_;
}

void KvServer::Running::pause(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  (void)ends_.wait_for(lock, stop, between_beginnings_.next(), [] { return false; });
}

void KvServer::Running::begin(bool goes_on, const std::stop_token& stop) {
  std::unique_ptr<kv::Service> former;
  {
    const MutexLock lock(mutex_);
    former = std::move(service_);
  }
  former.reset();  // its sockets are the next one's
  options_.replica.has_nothing = !goes_on;
  options_.replica.goes_on = goes_on;
  if (goes_on) note(Beginning::under_way);
  while (!stop.stop_requested()) {
    try {
      auto next = std::make_unique<kv::Service>(options_, secret_);
      {
        const MutexLock lock(mutex_);
        service_ = std::move(next);
      }
      if (goes_on) note(Beginning::known);
      return;
    } catch (const std::exception& error) {
      log::warn(std::string(goes_on ? "no server is here yet: " : "there is no standby here yet: ") + error.what());
      if (has_disk()) note(Beginning::failed, error.what());
    }
    pause(stop);
  }
}

KvServer::KvServer(const PoolDirectory& pool, team::Team& team, const KvNodeOptions& options)
    : addresses_(pool, team, kv::kServiceName, 1) {
  const kv::ServiceOptions service = options_of(pool, addresses_, team, options);
  if (options.copies > 1) {
    standbys_.emplace(pool, team, kv::kStandbyName, 1 + 2 * team.size());  // after kv's ports, and those of far
    serve_copies(service, options, team);
  } else {
    first_ = std::make_unique<Running>(service, pool_secret());
  }
}

// The standby first: its primary, on another node, waits for it. A node that was started again begins with nothing in
// both of its seats: of the two partitions it was one server, and the other one teaches it what there is. With journals
// every node does, since it does not know whether the other server of each has more.
void KvServer::serve_copies(const kv::ServiceOptions& options, const KvNodeOptions& node, team::Team& team) {
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
  const bool is_again = team.incarnation() != kFirstIncarnation;
  first.replica.has_nothing = is_again || node.journal;
  first.replica.is_dead = [&team, rank_of](kv::ServerNumber partition, unsigned seat, std::uint16_t incarnation) {
    return team.has_died(rank_of(partition, seat), incarnation);
  };
  first.replica.is_gone = [&team, rank_of](kv::ServerNumber partition, unsigned seat) {
    return team.is_vacant(rank_of(partition, seat));
  };
  kv::ServiceOptions second = first;
  second.replica.seat = 1;
  second.self = (team.rank() + size - 1) % size;
  second.listen = standbys_->own();
  if (node.journal) second.journal->directory = directory_of(*node.journal, second.self, second.replica.seat);
  second_ = std::make_unique<Running>(second, secret);
  first_ = std::make_unique<Running>(first, secret);
  if (node.journal && !is_again) {
    second_->await_succession();
    first_->await_succession();
  }
  if (is_again) {
    log::warn("this node was started again: the nodes beside it give it copies of its keys, and of theirs");
  }
}

}  // namespace farside::node
