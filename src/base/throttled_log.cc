#include "base/throttled_log.h"

#include <utility>

#include "farside/base/log.h"

namespace farside {

void ThrottledLog::warn(const std::string& line) {
  const auto now = std::chrono::steady_clock::now();
  std::uint64_t before = 0;
  {
    const MutexLock lock(mutex_);
    if (now < quiet_until_) {
      ++held_back_;
      return;
    }
    quiet_until_ = now + std::chrono::seconds(1);
    before = std::exchange(held_back_, 0);
  }
  log::warn(before == 0 ? line : line + "; " + std::to_string(before) + " others before");
}

}  // namespace farside
