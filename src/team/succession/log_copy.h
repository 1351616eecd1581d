// log_copy.h — a copy of the coordinator's log (decision_log.h) on another machine: it is written as the coordinator
// decides, and is what a coordinator can be started from when the first machine is lost for good (farside authority
// start --from). It may lack what was decided last.
//
// Runs on its own thread: connecting and writing block.
#pragma once

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <thread>

#include "farside/base/fd.h"

#include "base/mutex.h"
#include "net/introduction.h"
#include "team/succession/coordinator_finder.h"

namespace farside::team {

class LogCopy {
 public:
  /// `coordinator` as CoordinatorFinder takes it.
  LogCopy(std::filesystem::path path, const std::string& coordinator, const net::Secret& secret);
  ~LogCopy();
  LogCopy(const LogCopy&) = delete;
  LogCopy& operator=(const LogCopy&) = delete;

 private:
  void run();
  /// Throws Error when the connection ends, or the copy cannot be written.
  void follow();
  [[nodiscard]] std::string next_entry(const net::Introduced& what, net::Session& session);
  [[nodiscard]] net::Session connect(const net::Introduced& what);
  /// Throws Error when the copy has more.
  void make_way_for(std::span<const std::string> begin) const;
  /// Returns whether it is not to end.
  [[nodiscard]] bool pause(std::chrono::milliseconds duration);

  const std::filesystem::path path_;
  CoordinatorFinder finder_;
  const net::Secret secret_;
  std::string said_;  ///< why there is no copy, as it was said last
  Mutex mutex_;
  ConditionVariable changed_;
  bool ends_ GUARDED_BY(mutex_) = false;
  Fd socket_;           ///< of the thread; shut down by another one under the mutex
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace farside::team
