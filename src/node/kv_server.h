// kv_server.h — a node's part of the key-value store: a server in a thread of its own, and when there are two copies
// of everything the second server of another node's partition in another one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "farside/team/team.h"

#include "base/backoff.h"
#include "base/mutex.h"
#include "kv/service/service.h"
#include "node/pool/pool_directory.h"
#include "node/service_addresses.h"

namespace farside::node {

struct KvNodeOptions {
  std::uint64_t bytes = 0;       ///< of memory, for each copy; 0: no store
  std::uint32_t copies = 1;      ///< 2: with a journal each has its own
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
  /// its successor teaches it what it has of this node's partition, its predecessor what it has of its own. With
  /// journals as well every node begins so, and where both servers of a partition do, the one goes on whose disk has
  /// all that was acknowledged. Throws Error when it cannot listen there, has not the memory, cannot recover from its
  /// journal, or, when the pool is started, neither disk of a partition may go on.
  KvServer(const PoolDirectory& pool, team::Team& team, const KvNodeOptions& options);

 private:
  /// A service, and the thread that runs it. A standby that is of no use any more is replaced by one that has nothing;
  /// one that is to go on with what its disk has, by one that does.
  class Running {
   public:
    Running(const kv::ServiceOptions& options, const net::Secret& secret);

    /// Returns when it is known whether it goes on with what its disk has, and if so it does; or when the other server
    /// has not answered for a while. Throws Error when neither disk may, or its own cannot be read.
    void await_succession();

   private:
    void run(const std::stop_token& stop);
    /// Its copy is on a disk, of which two copies are: it begins in the thread, which tries again and again.
    [[nodiscard]] bool has_disk() const { return options_.journal && options_.replica.standbys; }
    /// Requires that there is one.
    [[nodiscard]] kv::Service& present();
    /// Whether it is to go on with what its disk has, of one whose copy is on a disk.
    [[nodiscard]] bool is_successor(const kv::Service& service);
    void pause(const std::stop_token& stop);
    /// Returns once there is another service, or at the end.
    void begin(bool goes_on, const std::stop_token& stop);
    enum class Beginning : std::uint8_t { awaited, under_way, known, failed };
    void note(Beginning beginning, std::string why = {});

    kv::ServiceOptions options_;
    const net::Secret secret_;
    Backoff<std::chrono::seconds> between_beginnings_;
    Mutex mutex_;
    std::condition_variable_any ends_;
    std::condition_variable_any noted_;
    Beginning beginning_ GUARDED_BY(mutex_) = Beginning::awaited;
    std::string why_failed_ GUARDED_BY(mutex_);
    std::unique_ptr<kv::Service> service_ GUARDED_BY(mutex_);
    std::jthread thread_;
  };

  void serve_copies(const kv::ServiceOptions& options, const KvNodeOptions& node, team::Team& team);

  const ServiceAddresses addresses_;
  std::optional<ServiceAddresses> standbys_;  ///< by the rank that has them
  std::unique_ptr<Running> second_;           ///< of the partition before
  std::unique_ptr<Running> first_;            ///< of the one with this node's number
};

}  // namespace farside::node
