// page_directory.h — where pages are, as their homes know it (docs/protocols/gas.md, "Caching a place").
//
// One per thread.
#pragma once

#include <span>
#include <vector>

#include "farside/comm/comm.h"

#include "base/backoff.h"
#include "gas/protocol/page_memory.h"

namespace farside::gas {

/// The place of a page when this rank's counter `revoked` was `sampled`. While the counter stays, so does the page.
struct KnownPlace {
  static constexpr PageId kNone = ~PageId{0};

  PageId page = kNone;
  std::uint64_t sampled = 0;
  Location place{};
  const RemoteRegion* region = nullptr;
  std::uint64_t offset = 0;  ///< of the page's first byte there
};

/// Detects that a word stays as it is for so long that the rank that is to change it must have stopped.
class StandstillWatch {
 public:
  StandstillWatch(Fabric& fabric, Duration lease) : fabric_(fabric), lease_(lease), since_(fabric.now()) {}

  [[nodiscard]] bool stands_still(std::uint64_t word) {
    const Time now = fabric_.now();
    if (word != word_) {
      word_ = word;
      since_ = now;
    }
    return now - since_ > lease_;
  }

 private:
  Fabric& fabric_;
  Duration lease_;
  Time since_;
  std::uint64_t word_ = 0;
};

/// Sleeps a little longer each time.
class Pauses {
 public:
  explicit Pauses(Fabric& fabric) : fabric_(fabric) {}

  /// False when the deadline has passed.
  [[nodiscard]] bool sleep(Deadline deadline) {
    const Duration left = deadline.at - fabric_.now();
    if (left <= Duration::zero()) return false;
    fabric_.sleep(std::min(backoff_.next(), left));
    return true;
  }

 private:
  Fabric& fabric_;
  Backoff<Duration> backoff_{std::chrono::microseconds(2), std::chrono::milliseconds(1)};
};

class PageDirectory {
 public:
  PageDirectory(PageMemory& memory, Channel& channel) : memory_(memory), channel_(channel) {}

  /// Reads the homes' entries for `pages` into `places`, all under way at once.
  comm::Status look(std::span<const PageId> pages, std::span<Location> places, Deadline deadline);
  /// The same, so that it may be kept, but for pages that are being moved.
  comm::Status register_and_look(std::span<const PageId> pages, std::vector<KnownPlace>& found, Deadline deadline);
  /// Waits until `page` is not being moved; the lock of a rank that has stopped is broken.
  comm::Status await_rest(PageId page, Deadline deadline);

  /// With peer_lost it names a home of `pages` that is lost.
  [[nodiscard]] comm::Status status_at_homes(std::span<const PageId> pages, Outcome outcome) const;

 private:
  comm::Status register_this_rank(std::span<const PageId> pages, Deadline deadline);

  PageMemory& memory_;
  Channel& channel_;
};

}  // namespace farside::gas
