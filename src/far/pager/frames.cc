#include "far/pager/frames.h"

#include <algorithm>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "base/assert.h"
#include "far/pager/futex.h"
#include "far/pager/page_table.h"
#include "far/pager/read_ahead.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kLeastReserve = kMaxAheadPages;  // a window that is fetched ahead fits

constexpr std::uint64_t kLeastBudgetPages = 256;  // below it there is hardly a window to read ahead into

}  // namespace

std::uint64_t budget_pages(std::uint64_t bytes) {
  const std::uint64_t pages = bytes / kPageBytes;
  if (pages >= kLeastBudgetPages) return pages;
  throw UsageError({"keep far memory near in", format_bytes(bytes), "that is too little",
                    "give at least " + format_bytes(kLeastBudgetPages * kPageBytes)});
}

// At most 1/64 of a budget worth the name is kept free, so that what was given is used.
Frames::Frames(std::uint64_t budget)
    : budget_(budget),
      low_(std::max(static_cast<std::int64_t>(budget / 128), kLeastReserve)),
      high_(std::max(static_cast<std::int64_t>(budget / 64), 2 * kLeastReserve)),
      free_(static_cast<std::int64_t>(budget)) {}

bool Frames::take_one(milliseconds timeout) {
  const auto give_up = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const std::uint32_t seen = freed_.load();
    std::int64_t free = free_.load();
    assert_that(free <= static_cast<std::int64_t>(budget_), "no more frames are free than there are");
    while (free > 0) {
      if (!free_.compare_exchange_weak(free, free - 1)) continue;
      if (free - 1 < low_) ring();
      return true;
    }
    ring();
    const auto left = std::chrono::ceil<milliseconds>(give_up - std::chrono::steady_clock::now());
    if (left <= milliseconds(0)) return false;
    waiting_.fetch_add(1);
    if (free_.load() <= 0) futex_wait(freed_, seen, left);
    waiting_.fetch_sub(1);
  }
}

std::uint64_t Frames::take_spare(std::uint64_t wanted) {
  const std::int64_t kept = low_ / 4;
  std::int64_t free = free_.load();
  for (;;) {
    const std::int64_t count = std::min(static_cast<std::int64_t>(wanted), std::max<std::int64_t>(free - kept, 0));
    if (count != 0 && !free_.compare_exchange_weak(free, free - count)) continue;
    if (wanted != 0 && free - count < low_) ring();
    return static_cast<std::uint64_t>(count);
  }
}

void Frames::overdraw(std::uint64_t count) {
  const auto taken = static_cast<std::int64_t>(count);
  if (free_.fetch_sub(taken) - taken < low_) ring();
}

void Frames::give(std::uint64_t count) {
  if (count == 0) return;
  free_.fetch_add(static_cast<std::int64_t>(count));
  freed_.fetch_add(1);
  if (waiting_.load() != 0) futex_wake_all(freed_);
}

std::uint64_t Frames::wanted() const {
  const std::int64_t free = free_.load();
  return free < high_ ? static_cast<std::uint64_t>(high_ - free) : 0;
}

void Frames::await_wanted(const std::atomic<bool>& stopped) {
  const auto is_time = [&] { return stopped.load() || free_.load() < low_; };
  while (!is_time()) {
    const std::uint32_t seen = bell_.load();
    asleep_.store(true);
    if (is_time()) return;
    futex_wait(bell_, seen, time_limits::kEvictorLook);
  }
}

void Frames::wake_evictors() {
  bell_.fetch_add(1);
  futex_wake_all(bell_);
}

// Only a thread that finds one asleep makes the system call.
void Frames::ring() {
  bell_.fetch_add(1);
  if (asleep_.exchange(false)) futex_wake_all(bell_);
}

}  // namespace farside::far
