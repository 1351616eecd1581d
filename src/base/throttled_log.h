// throttled_log.h — warnings about what others can cause as often as they like.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace farside {

/// Logs at most one line a second, which says how many were held back before it. Any thread may call it.
class ThrottledLog {
 public:
  void warn(const std::string& line);

 private:
  std::mutex mutex_;
  std::uint64_t held_back_ = 0;
  std::chrono::steady_clock::time_point quiet_until_{};
};

}  // namespace farside
