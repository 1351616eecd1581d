// throttled_log.h — warnings about what others can cause as often as they like.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/mutex.h"

namespace farside {

/// Logs at most one line a second, which says how many were held back before it. Any thread may call it.
class ThrottledLog {
 public:
  void warn(const std::string& line);

 private:
  Mutex mutex_;
  std::uint64_t held_back_ GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point quiet_until_ GUARDED_BY(mutex_){};
};

}  // namespace farside
