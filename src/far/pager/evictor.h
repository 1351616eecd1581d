// evictor.h — the thread that carries pages of one mover away while too few frames are free.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "far/pager/page_mover.h"

namespace farside::far {

/// Each mover has its own evictor, also where movers share frames, so that a program that does not answer does not hold
/// up the others. Each evicts in proportion to its mover's share of what is here.
class Evictor {
 public:
  Evictor(PagedMemory& memory, PageMover& mover, Frames& frames, std::unique_ptr<PageIo> page_io);
  ~Evictor();
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  /// In a child of fork, which has no such thread.
  void forget_thread() { thread_.detach(); }

 private:
  void evict_until_stopped();
  [[nodiscard]] std::uint64_t share(std::uint64_t wanted) const;

  PagedMemory& memory_;
  PageMover& mover_;
  Frames& frames_;
  const std::unique_ptr<PageIo> page_io_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace farside::far
