// far_watch.h — what programs under `farside far` have beside far memory: it is this machine's, and in no budget.
#pragma once

#include <cstdint>
#include <thread>

#include "base/mutex.h"
#include "far/daemon/daemon.h"

namespace farside::cli {

/// Warns on standard error, while it lives, when that is more than the budget and more than 64 MiB; and again whenever
/// it has doubled.
class FarWatch {
 public:
  /// Watches the programs below this process, which `daemon` serves. Requires: `daemon` outlives this.
  FarWatch(const far::Daemon& daemon, std::uint64_t local_bytes);
  ~FarWatch();
  FarWatch(const FarWatch&) = delete;
  FarWatch& operator=(const FarWatch&) = delete;

  /// When all have ended: warns if none of them had far memory.
  void expect_programs() const;

 private:
  void run();
  void look() REQUIRES(mutex_);

  const far::Daemon& daemon_;
  const std::uint64_t local_bytes_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool ends_ GUARDED_BY(mutex_) = false;
  std::uint64_t told_bytes_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace farside::cli
