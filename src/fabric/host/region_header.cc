#include "fabric/host/region_header.h"

#include <atomic>
#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farside {

void wake_sleepers(RegionHeader& header) {
  full_fence();
  if (std::atomic_ref(header.waiters).load() == 0) [[likely]]
    return;
  std::atomic_ref(header.sequence).fetch_add(1);
  ::syscall(SYS_futex, &header.sequence, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Sleeper::Sleeper(RegionHeader& header) : header_(header) {
  std::atomic_ref(header_.waiters).fetch_add(1);
  full_fence();
}

Sleeper::~Sleeper() { std::atomic_ref(header_.waiters).fetch_sub(1); }

std::uint32_t Sleeper::ticket() const { return std::atomic_ref(header_.sequence).load(); }

void Sleeper::sleep(std::uint32_t ticket, Duration at_most) const {
  const std::timespec timeout{at_most.count() / 1'000'000'000, at_most.count() % 1'000'000'000};
  // A wake-up, a time-out, a signal or a sequence that moved on: the caller looks at its reasons again in each case.
  ::syscall(SYS_futex, &header_.sequence, FUTEX_WAIT, ticket, &timeout, nullptr, 0);
}

}  // namespace farside
