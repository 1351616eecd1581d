// traffic_counts.h — operations that this process has issued, and the bytes they move, by rank. Each thread counts in a
// block of its own, so that counting takes no locked instruction.
//
// Guarantee: nothing is lost; what a thread has counted stays when it ends.
//
// Memory: 16 bytes for each rank and each thread that counts. A thread may take over the block of one that has ended.
//
// Thread safety: every call, from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "farside/comm/comm.h"

#include "base/mutex.h"

namespace farside::comm {

/// Those of one rank. Written by one thread.
struct TrafficCount {
  std::atomic<std::uint64_t> operations = 0;
  std::atomic<std::uint64_t> bytes = 0;
};

/// The calling thread's counts, by rank, of the TrafficCounts with that number.
struct OwnTrafficCounts {
  std::uint64_t number = 0;
  TrafficCount* by_rank = nullptr;
};
/// The counts of the objects that the thread has used last, each in the place that its number has. They lie in the
/// static block of thread-local memory: no call is needed to find them.
extern constinit thread_local std::array<OwnTrafficCounts, 4> own_traffic_counts
    __attribute__((tls_model("initial-exec")));

class TrafficCounts {
 public:
  explicit TrafficCounts(team::Rank ranks) : ranks_(ranks) {}

  void add(team::Rank rank, std::uint64_t bytes) {
    const OwnTrafficCounts& own = own_traffic_counts[number_ % own_traffic_counts.size()];
    TrafficCount& count = (own.number == number_ ? own.by_rank : find_own())[rank];
    add_to(count.operations, 1);
    add_to(count.bytes, bytes);
  }
  /// Requires: `rank` is one of the ranks.
  [[nodiscard]] Traffic of(team::Rank rank) const;
  [[nodiscard]] team::Rank ranks() const noexcept { return ranks_; }

 private:
  static void add_to(std::atomic<std::uint64_t>& count, std::uint64_t addend) {
    count.store(count.load(std::memory_order_relaxed) + addend, std::memory_order_relaxed);
  }
  /// Finds the calling thread's counts, or makes them.
  [[gnu::noinline]] TrafficCount* find_own();

  static std::atomic<std::uint64_t> last_number_;

  const team::Rank ranks_;
  const std::uint64_t number_ = ++last_number_;  ///< never another object's: it may outlive this in own_traffic_counts
  mutable Mutex mutex_;
  std::map<std::thread::id, std::vector<TrafficCount>> blocks_ GUARDED_BY(mutex_);
};

}  // namespace farside::comm
