#include "far/pager/frames.h"

#include <algorithm>

#include "far/pager/futex.h"

namespace farside::far {

namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kLeastReserve = 32;  // pages: a window that is fetched ahead fits
constexpr milliseconds kNap{1000};

}  // namespace

// Of a budget worth the name at most 1/64 is kept free, so that what was given is used.
Frames::Frames(std::uint64_t budget)
    : budget_(budget),
      low_(std::max(budget / 128, kLeastReserve)),
      high_(std::max(budget / 64, 2 * kLeastReserve)),
      free_(budget) {}

bool Frames::take_one(milliseconds patience) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const std::uint32_t seen = freed_.load();
    std::uint64_t free = free_.load();
    while (free != 0) {
      if (!free_.compare_exchange_weak(free, free - 1)) continue;
      if (free - 1 < low_) ring();
      return true;
    }
    ring();
    if (std::chrono::steady_clock::now() > give_up) return false;
    waiting_.fetch_add(1);
    if (free_.load() == 0) futex_wait(freed_, seen, kNap);
    waiting_.fetch_sub(1);
  }
}

std::uint64_t Frames::take_spare(std::uint64_t wanted) {
  const std::uint64_t kept = low_ / 4;
  std::uint64_t free = free_.load();
  for (;;) {
    const std::uint64_t count = std::min(wanted, free > kept ? free - kept : 0);
    if (count != 0 && !free_.compare_exchange_weak(free, free - count)) continue;
    if (wanted != 0 && free - count < low_) ring();
    return count;
  }
}

void Frames::give(std::uint64_t count) {
  if (count == 0) return;
  free_.fetch_add(count);
  freed_.fetch_add(1);
  if (waiting_.load() != 0) futex_wake_all(freed_);
}

std::uint64_t Frames::wanted() const {
  const std::uint64_t free = free_.load();
  return free < high_ ? high_ - free : 0;
}

void Frames::await_wanted() {
  for (;;) {
    const std::uint32_t seen = bell_.load();
    asleep_.store(true);
    if (stopped_.load() || free_.load() < low_) break;
    futex_wait(bell_, seen, std::chrono::minutes(1));
  }
  asleep_.store(false);
}

void Frames::stop() {
  stopped_.store(true);
  bell_.fetch_add(1);
  futex_wake_all(bell_);
}

// Only who finds it asleep makes the system call.
void Frames::ring() {
  bell_.fetch_add(1);
  if (asleep_.exchange(false)) futex_wake_all(bell_);
}

}  // namespace farside::far
