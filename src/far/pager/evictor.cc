#include "far/pager/evictor.h"

#include <algorithm>
#include <chrono>

#include "base/signals_held.h"

namespace farside::far {

namespace {

constexpr std::chrono::milliseconds kPauseWhenRefused{10};
constexpr std::chrono::microseconds kShortestPause{20};
constexpr std::chrono::microseconds kLongestPause{10'000};
constexpr std::uint64_t kLeastBatch = 16;

}  // namespace

Evictor::Evictor(PagedMemory& memory, PageMover& mover, Frames& frames, std::unique_ptr<Shuttle> shuttle)
    : memory_(memory),
      mover_(mover),
      frames_(frames),
      shuttle_(std::move(shuttle)),
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
  return std::max((wanted * here + of_all - 1) / of_all, std::min(wanted, kLeastBatch));
}

// What cannot go now is tried again: room may come free in the space. A thread that waits for a frame meanwhile gives
// up after its own time.
void Evictor::evict_until_stopped() {
  auto pause = kShortestPause;
  while (!stopped_.load()) {
    frames_.await_wanted(stopped_);
    while (!stopped_.load()) {
      const std::uint64_t wanted = frames_.wanted();
      if (wanted == 0) break;
      const std::uint64_t mine = share(wanted);
      const PageMover::Evicted evicted =
          mine == 0 ? PageMover::Evicted{0, Result::done} : mover_.evict(mine, *shuttle_);
      if (evicted.result == Result::lost) memory_.fail("carry a page of far memory away", to_string(evicted.result));
      if (evicted.pages != 0) {
        pause = kShortestPause;
      } else if (evicted.result == Result::done) {
        std::this_thread::sleep_for(pause);  // all were written to on their way, or are being changed, or are others'
        pause = std::min(2 * pause, kLongestPause);
      } else {
        std::this_thread::sleep_for(kPauseWhenRefused);
      }
    }
  }
}

}  // namespace farside::far
