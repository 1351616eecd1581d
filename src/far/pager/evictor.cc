#include "far/pager/evictor.h"

#include <algorithm>
#include <chrono>

#include "farside/base/log.h"
#include "farside/base/rounding.h"

#include "base/backoff.h"
#include "base/signals_held.h"

namespace farside::far {

namespace {

constexpr std::chrono::milliseconds kPauseWhenRefused{10};
constexpr std::chrono::microseconds kFirstPause{20};
constexpr std::chrono::microseconds kMaxPause{10'000};
constexpr std::chrono::seconds kRefusedLong{1};
constexpr std::chrono::seconds kQuiet{30};
constexpr std::uint64_t kLeastBatch = 16;

/// Says that programs wait, and nothing has left for long.
class RefusalReport {
 public:
  void note(bool is_refused) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_refused) last_good_ = now;
    if (now - last_good_ < kRefusedLong || now < quiet_until_) return;
    quiet_until_ = now + kQuiet;
    log::warn(
        "far memory is full: the program waits for a page to leave, and ends if none can for two minutes; to go on it "
        "takes memory that is freed, by it or in the pool");
  }

 private:
  std::chrono::steady_clock::time_point last_good_{};
  std::chrono::steady_clock::time_point quiet_until_{};
};

}  // namespace

Evictor::Evictor(PagedMemory& memory, PageMover& mover, Frames& frames, std::unique_ptr<PageIo> page_io)
    : memory_(memory),
      mover_(mover),
      frames_(frames),
      page_io_(std::move(page_io)),
      thread_(start_thread([this] { evict_until_stopped(); })) {}

Evictor::~Evictor() {
  if (!thread_.joinable()) return;
  stopped_.store(true);
  frames_.wake_evictors();
  thread_.join();
}

std::uint64_t Evictor::share(std::uint64_t wanted) const {
  const std::uint64_t here = mover_.pages_here();
  if (here == 0) return 0;
  const std::uint64_t of_all = std::max(frames_.used(), here);
  return std::max(div_ceil(wanted * here, of_all), std::min(wanted, kLeastBatch));
}

// Pages that cannot leave now are tried again: room may come free in the space. A thread that waits for a frame in that
// time gives up at its own timeout.
void Evictor::evict_until_stopped() {
  Backoff backoff(kFirstPause, kMaxPause);
  RefusalReport refusals;
  while (!stopped_.load()) {
    frames_.await_wanted(stopped_);
    refusals.note(false);
    while (!stopped_.load()) {
      const std::uint64_t wanted = frames_.wanted();
      if (wanted == 0) break;
      const std::uint64_t mine = share(wanted);
      const PageMover::Evicted evicted =
          mine == 0 ? PageMover::Evicted{0, Status::done} : mover_.evict(mine, *page_io_);
      if (evicted.status == Status::lost) memory_.fail("carry a page of far memory away", to_string(evicted.status));
      refusals.note(evicted.status == Status::full && evicted.pages == 0 && frames_.used() >= frames_.budget());
      if (evicted.pages != 0) {
        backoff.reset();
      } else if (evicted.status == Status::done) {
        std::this_thread::sleep_for(backoff.next());  // all were written to on their way, or being changed, or others'
      } else {
        std::this_thread::sleep_for(kPauseWhenRefused);
      }
    }
  }
}

}  // namespace farside::far
