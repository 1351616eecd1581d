#include "comm/traffic_counts.h"

namespace farside::comm {

constinit thread_local std::array<OwnTrafficCounts, 4> own_traffic_counts __attribute__((tls_model("initial-exec"))){};
std::atomic<std::uint64_t> TrafficCounts::last_number_ = 0;

// A thread that has the identifier of one that ended goes on in its block: of two that live none have the same.
TrafficCount* TrafficCounts::find_own() {
  const MutexLock lock(mutex_);
  std::vector<TrafficCount>& own = blocks_.try_emplace(std::this_thread::get_id(), ranks_).first->second;
  own_traffic_counts[number_ % own_traffic_counts.size()] = {number_, own.data()};
  return own.data();
}

Traffic TrafficCounts::of(team::Rank rank) const {
  Traffic sum{};
  const MutexLock lock(mutex_);
  for (const auto& [thread, by_rank] : blocks_) {
    const TrafficCount& count = by_rank[rank];
    sum.operations += count.operations.load(std::memory_order_relaxed);
    sum.bytes += count.bytes.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace farside::comm
