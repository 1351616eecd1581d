// kv_server.h — a node's part of the key-value store: a server in a thread of its own, and when there are two copies
// of everything the second server of another node's partition in another one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "farside/team/team.h"

#include "base/mutex.h"
#include "kv/service/service.h"
#include "node/pool/pool_directory.h"
#include "node/service_addresses.h"

namespace farside::node {

struct KvNodeOptions {
  std::uint64_t bytes = 0;       ///< of memory, for each copy; 0: no store
  std::uint32_t copies = 1;      ///< 2: without a journal
  std::uint32_t min_copies = 1;  ///< with fewer a write is refused
  std::uint64_t copy_rate = 0;   ///< at which a copy is made again, in bytes per second; 0: as fast as it goes
  std::optional<kv::JournalSettings> journal{};
};

class KvServer {
 public:
  /// Collective, but for a recovery, which takes as long as the journal is long and shows its progress in `pool`:
  /// nothing collective may follow. Serves until destroyed, as server `rank` of as many as the team has ranks: in
  /// `pool`, and, in a pool on several machines, on the port of the coordinator + 1 + rank of this one (the second
  /// server on that + twice the number of ranks). With two copies a node that was started again has nothing at first:
  /// its successor teaches it what it has of this node's partition, its predecessor what it has of its own. Throws
  /// Error when it cannot listen there, has not the memory, or cannot recover from its journal.
  KvServer(const PoolDirectory& pool, team::Team& team, const KvNodeOptions& options);

 private:
  /// A service, and the thread that runs it. A standby that is of no use any more is replaced by one that has nothing.
  class Running {
   public:
    Running(const kv::ServiceOptions& options, const net::Secret& secret);

   private:
    void run(const std::stop_token& stop);
    [[nodiscard]] kv::Service* present();
    /// Returns once there is another service, or at the end.
    void begin_anew(const std::stop_token& stop);

    kv::ServiceOptions options_;
    const net::Secret secret_;
    Mutex mutex_;
    std::condition_variable_any ends_;
    std::unique_ptr<kv::Service> service_ GUARDED_BY(mutex_);
    std::jthread thread_;
  };

  void serve_copies(const kv::ServiceOptions& options, team::Team& team);

  const ServiceAddresses addresses_;
  std::optional<ServiceAddresses> standbys_;  ///< by the rank that has them
  std::unique_ptr<Running> second_;           ///< of the partition before
  std::unique_ptr<Running> first_;            ///< of the one with this node's number
};

}  // namespace farside::node
