// daemon.h — far memory for unmodified programs: pagers that stand outside of them. docs/protocols/far_daemon.md.
//
// Guarantees: of all programs together no more is here than the budget, but for what a fork makes twice at once. When a
// program ends, what it had is free again, here and in the space.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "farside/far/space.h"

#include "base/latency_buckets.h"
#include "far/daemon/profile.h"
#include "far/daemon/rules.h"
#include "far/pager/page_mover.h"
#include "far/pager/read_ahead.h"
#include "far/time_limits.h"

namespace farside::far {

struct DaemonOptions {
  std::string socket;                 ///< path; in a directory that no other user may enter
  std::uint64_t local_bytes = 0;      ///< that may be here of all programs together
  std::uint64_t arena_bytes = 0;      ///< of addresses for each program
  std::uint64_t threshold_bytes = 0;  ///< from which an allocation is far
  std::uint32_t most_ahead_pages = kMaxAheadPages;
  /// How long a fault waits for a page to leave.
  std::chrono::milliseconds fault_timeout = time_limits::kLeave;
  /// Has the hints that allocations get, and is told how they are used; if any. It stays as long as the daemon.
  Profile* profile = nullptr;
};

struct DaemonCounts {
  PagerCounts pages;           ///< of all programs, also of those that ended
  std::uint64_t programs = 0;  ///< that joined
  std::uint64_t bytes_here = 0;
  std::uint64_t bytes_kept = 0;  ///< in the space, of what is not given back
  metrics::LatencyCounts fault_latencies{};
};

/// Thread safety: every call, from any thread.
class Daemon {
 public:
  /// Listens, and serves until destroyed; a program that lives then is killed. Throws Error.
  Daemon(std::unique_ptr<Space> space, const DaemonOptions& options, DaemonRules rules = {});
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  [[nodiscard]] DaemonCounts counts() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace farside::far
