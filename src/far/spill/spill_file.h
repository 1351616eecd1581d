// spill_file.h — a copy on disk of what a space holds elsewhere, written behind: what was put is queued, and a thread
// carries it to the file in the order in which it came.
//
// Guarantee: what take finds is what was put last before it. The file has no name, and is gone with its owner, however
// that ends.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "farside/base/fd.h"

#include "base/mutex.h"
#include "base/throttled_log.h"

namespace farside::far {

/// Thread safety: every call, from any thread.
class SpillFile {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kQueueBytes = 16U << 20U;

  /// Makes `path`, which must not be there yet, with room for `bytes`, and takes its name away. Throws Error.
  SpillFile(const std::filesystem::path& path, std::uint64_t bytes, std::size_t queue_bytes = kQueueBytes);
  /// Loses what is still queued: no reader is left.
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  enum class Put : std::uint8_t {
    queued,
    late,    ///< the disk is slower than what is put
    failed,  ///< what came earlier cannot be written, and is tried again
  };
  /// Queues bytes for `offset`. When not all of them are, those at the front may be.
  [[nodiscard]] Put put(std::uint64_t offset, std::span<const std::byte> bytes, Clock::time_point deadline);
  /// Zeros, which take no room in the queue.
  [[nodiscard]] Put clear(std::uint64_t offset, std::uint64_t bytes, Clock::time_point deadline);
  /// False: what was put before is not all in the file by then, or cannot be read.
  [[nodiscard]] bool take(std::uint64_t offset, std::span<std::byte> into, Clock::time_point deadline);

 private:
  struct Item {
    std::uint64_t offset;
    std::uint64_t bytes;
    bool is_zero;
  };

  [[nodiscard]] Put put_piece(const Item& item, const std::byte* data, Clock::time_point deadline);
  [[nodiscard]] bool has_room_for(const Item& item) const REQUIRES(mutex_);
  void carry(const std::stop_token& stop);
  /// The item's bytes begin at `first`. 0, or errno.
  [[nodiscard]] int carry_one(const Item& item, std::uint64_t first);
  [[nodiscard]] int let_go_of_cache(std::uint64_t written_bytes);

  const std::string name_;  ///< in errors
  Fd file_;
  /// The bytes of the queue's items, one after the other. put_piece writes them under the mutex; the carrier reads
  /// those of the front item without it, as they stay until the item leaves the queue.
  std::vector<std::byte> ring_;
  ThrottledLog log_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> queue_ GUARDED_BY(mutex_);
  /// The places where the front item's bytes begin and where the next ones go, counted from the beginning: in the ring,
  /// modulo its size.
  std::uint64_t first_ GUARDED_BY(mutex_) = 0;
  std::uint64_t end_ GUARDED_BY(mutex_) = 0;
  std::uint64_t put_ GUARDED_BY(mutex_) = 0;  ///< items, ever
  std::uint64_t done_ GUARDED_BY(mutex_) = 0;
  bool failing_ GUARDED_BY(mutex_) = false;

  std::uint64_t dirty_bytes_ = 0;  // of the thread that carries
  bool unsure_ = false;            ///< of what was written before, for ever: the kernel tells of a loss once
  std::jthread carrier_;
};

}  // namespace farside::far
