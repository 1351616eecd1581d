// channel_set.h — the channels of an engine, so that threads that wait on a peer learn that it was lost.
//
// Thread safety: every call, from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>

#include "base/mutex.h"

namespace farside {

class UcxChannel;

class UcxChannelSet {
 public:
  void add(UcxChannel& channel);
  void remove(UcxChannel& channel);
  void alarm();
  /// Never the same twice.
  [[nodiscard]] std::uint64_t next_number() noexcept { return ++last_number_; }

 private:
  std::atomic<std::uint64_t> last_number_ = 0;
  Mutex mutex_;
  std::set<UcxChannel*> channels_ GUARDED_BY(mutex_);
};

}  // namespace farside
