// prefaulter.h — takes the memory of a node's slots a little before blocks come in.
//
// A block that goes to memory that was never touched costs a page fault for every 4 KiB, which takes longer than all
// the rest of its way. Slots are used in order, so a thread goes ahead of them and takes their memory in large pages.
// It takes no more than is soon to be used: what a node never fills, the machine keeps.
//
// Thread safety: every call, from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "farside/cache/cache.h"
#include "farside/fabric/region.h"

#include "base/mutex.h"

namespace farside::node {

class Prefaulter {
 public:
  /// Begins with the first slots. `region` must outlive this.
  Prefaulter(const Region& region, const cache::CacheLayout& layout);

  /// A block came into `slot`.
  void used(std::uint64_t slot);

 private:
  void run(const std::stop_token& stop);
  [[nodiscard]] std::optional<std::size_t> next() const REQUIRES(mutex_);

  const Region& region_;
  const cache::CacheLayout layout_;
  Mutex mutex_;
  std::condition_variable_any wake_;
  std::uint64_t used_end_ GUARDED_BY(mutex_);   ///< of the region; what lies before has been in use
  std::vector<bool> taken_ GUARDED_BY(mutex_);  ///< by stretch of the region
  std::jthread thread_;                         ///< last: the others live longer
};

}  // namespace farside::node
