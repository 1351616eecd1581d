// pager.h — far memory at addresses of this process: an arena whose pages come when they are touched, and leave when
// more than the budget would be here. docs/protocols/far_pager.md says why no write is lost.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "base/mutex.h"
#include "far/pager/arena.h"
#include "far/pager/bus_errors.h"
#include "far/pager/evictor.h"
#include "far/pager/page_io.h"
#include "far/pager/read_ahead.h"
#include "far/pager/userfault.h"
#include "far/time_limits.h"

namespace farside::far {

struct PagerOptions {
  std::uint64_t budget_bytes = 0;
  FaultService service = FaultService::automatic;
  std::uint32_t most_ahead_pages = kMaxAheadPages;
  /// How long a fault waits for a page to leave, when the space has no room.
  std::chrono::milliseconds fault_timeout = time_limits::kLeave;
};

/// Thread safety: every call, from any thread. Requires: no thread uses the arena any more when the pager is destroyed.
class Pager final : public BusErrorServer {
 public:
  /// Throws Error. In a child of fork it can only be destroyed.
  Pager(std::unique_ptr<PageIoSource> source, PagerOptions options, PagerRules rules = {});
  ~Pager() override;

  [[nodiscard]] std::byte* base() const { return arena_.base(); }
  [[nodiscard]] std::size_t bytes() const { return arena_.bytes(); }
  [[nodiscard]] FaultService service() const { return service_; }

  /// The pages that lie wholly within are zeros afterwards.
  void discard(void* begin, std::size_t bytes);
  /// Sets the hint of all pages of the range. Throws Error when more would be pinned than three quarters of the budget.
  void advise(void* begin, std::size_t bytes, Hint hint);

  [[nodiscard]] PagerCounts counts() const { return mover_.counts(); }
  [[nodiscard]] std::uint64_t pages_here() const { return frames_.used(); }

  [[nodiscard]] bool owns(const void* address) const override { return arena_.contains(address); }
  void serve_bus_error(void* address, bool is_write) override;

 private:
  class Borrowed;

  void serve(void* address, bool is_write, PageIo& page_io);
  void bring(PageNumber first, PageNumber count);
  void handle_until_stopped();
  void start();
  void stop();
  void test();

  const pid_t process_;
  std::unique_ptr<PageIoSource> source_;
  FaultService service_;
  Userfault userfault_;
  Arena arena_;
  Frames frames_;
  PageMover mover_;
  Fd stop_;  ///< readable when the handler is to end

  Mutex page_ios_mutex_;
  ConditionVariable page_io_returned_;
  /// Free ones, of faulting threads and of callers.
  std::vector<std::unique_ptr<PageIo>> page_ios_ GUARDED_BY(page_ios_mutex_);
  std::unique_ptr<PageIo> handlers_;
  std::atomic<bool> stopping_{false};
  Mutex pinned_mutex_;
  std::uint64_t pinned_pages_ GUARDED_BY(pinned_mutex_) = 0;

  std::optional<Evictor> evictor_;
  std::thread handler_;
  std::optional<BusErrorRegistration> registration_;
};

}  // namespace farside::far
