// device.h — a space of far memory as a block device: what nbdkit's requests come down to.
//
// A write is done when it is safe (as an IoContext's is), whichever connection wrote it: a flush has nothing to do, and
// a device may have any number of connections.
//
// A device allocates nothing for a request (its I/O contexts' lists grow now and then). Thread safety: every call, from
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "farside/far/space.h"

#include "base/mutex.h"
#include "far/time_limits.h"
#include "nbd/written_blocks.h"

namespace farside::nbd {

class Device {
 public:
  explicit Device(std::unique_ptr<far::Space> space);

  [[nodiscard]] std::uint64_t bytes() const { return space_->bytes(); }

  [[nodiscard]] far::Status read(std::span<std::byte> into, std::uint64_t offset);
  /// nbdkit names what is written by pointers to const; a LocalSpan has none.
  [[nodiscard]] far::Status write(std::span<std::byte> from, std::uint64_t offset);
  /// Reads as zeros afterwards.
  [[nodiscard]] far::Status discard(std::uint64_t offset, std::uint64_t bytes);
  /// Blocks that are not written read as zeros.
  [[nodiscard]] const WrittenBlocks& written() const noexcept { return written_; }

 private:
  class Turn;  ///< with one of the I/O contexts

  [[nodiscard]] Deadline deadline() const { return space_->fabric().in(far::time_limits::kDeviceRequest); }

  static constexpr std::size_t kIoContexts = 16;  ///< requests that are under way at once

  std::unique_ptr<far::Space> space_;
  WrittenBlocks written_;
  Mutex mutex_;
  ConditionVariable returned_;
  std::vector<std::unique_ptr<far::IoContext>> free_ GUARDED_BY(mutex_);
};

}  // namespace farside::nbd
