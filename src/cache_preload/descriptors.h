// descriptors.h — what is known about each of the program's file descriptors.
//
// Nothing is recorded when a file is opened: the first read of a descriptor finds out what it is. What was found is
// forgotten when the descriptor's number may come to mean something else.
//
// A read goes to the kernel by number, too: it moves the offset, and fetches blocks missing from the pool. A number
// that came to mean another file since the read looked at it would have that file's offset moved. So a read registers
// with the number, and a change of it waits for the registered reads: a second at most, since some never end (a
// signal's handler that closes what the interrupted read is at, or that jumps out of a read that faulted).
#pragma once

#include <atomic>
#include <cstdint>

#include "farside/cache/block.h"

namespace farside::cache_preload {

/// A file whose bytes may come from the pool: the version that this descriptor was found to name.
struct CachedFile {
  cache::FileIdentity identity;
  std::uint64_t hash;  ///< file_hash(identity)
};

/// The effect of a read of a descriptor.
enum class Kind : std::uint64_t {
  unknown,   ///< finds out first
  passing,   ///< asks the kernel
  cached,    ///< asks the pool
  changing,  ///< asks the kernel: the number is just being closed or replaced
};

/// One descriptor. Any thread, and any signal handler, may call any of these at any time; nothing waits.
///
///     state    kind (2 bits), being recorded (1 bit), generation (61 bits)
///     use      how often the number changed its meaning (48 bits), reads that are at it (16 bits)
///     file     the words of a CachedFile, whole while state is `cached` in one and the same generation
///     hints    may be wrong at any time
///
/// Guarantee: what was found out about a descriptor before its number changed is never recorded after.
class Descriptor {
 public:
  /// A kind as it was at one moment.
  struct Look {
    std::uint64_t state;
    [[nodiscard]] Kind kind() const { return static_cast<Kind>(state & kKindMask); }
  };

  /// Fills `file` if the kind is `cached`, and may write nonsense to it if not.
  [[nodiscard]] Look look(CachedFile& file) const;

  /// To be called before finding out what the descriptor is.
  Look examine();

  /// Records what was found out, unless anything happened to the descriptor since `before`. Returns how it looks now.
  Look record(Look before, Kind found, const CachedFile& file);

  /// The number is about to mean something else ...
  void begin_change();
  /// ... and now does.
  void end_change();

  /// How often the number has changed its meaning; to be asked before the look.
  [[nodiscard]] std::uint64_t changes() const { return use_.load(std::memory_order_acquire) >> kReadBits; }
  /// Says that a read goes by the number from now on, until `leave`. False when it means something else than it did
  /// after so many changes.
  bool enter(std::uint64_t changes);
  void leave() { use_.fetch_sub(1, std::memory_order_release); }
  [[nodiscard]] bool has_reads() const { return (use_.load(std::memory_order_acquire) & kReads) != 0; }

  std::atomic<std::uint64_t> expected_offset;  ///< where the next read probably starts
  std::atomic<std::uint64_t> checked_ns;       ///< when fstat last showed the version recorded, by a coarse clock;
                                               ///< or how often all were distrusted, which is long ago as well

 private:
  static constexpr std::uint64_t kKindMask = 3;
  static constexpr std::uint64_t kRecording = 4;
  static constexpr std::uint64_t kGeneration = 8;
  static constexpr std::size_t kFileWords = sizeof(CachedFile) / sizeof(std::uint64_t);

  /// One step to the next generation, if the state still is `state`; else tells in it what it is.
  bool step(std::uint64_t& state, Kind kind, std::uint64_t recording);

  static constexpr unsigned kReadBits = 16;
  static constexpr std::uint64_t kReads = (1U << kReadBits) - 1;

  std::atomic<std::uint64_t> state_;
  std::atomic<std::uint64_t> use_;
  std::atomic<std::uint64_t> file_[kFileWords];
};

/// All descriptors of the process. Those with higher numbers always pass.
inline constexpr unsigned kDescriptors = 1U << 14U;

/// Null for a number that is not watched.
[[nodiscard]] Descriptor* descriptor(int fd);

/// Forgets everything. Only while the process has one thread.
void forget_all_descriptors();

/// Makes the next read of each descriptor look whether its file is still the same version.
void distrust_all_descriptors();

/// While this lives, the descriptors first to last (inclusive) are about to mean something else, and no read goes by
/// their numbers, unless it has for longer than the constructor waits.
class Changing {
 public:
  static constexpr std::uint64_t kMaxWait_ns = 1'000'000'000;

  explicit Changing(int fd) : Changing(static_cast<unsigned>(fd), static_cast<unsigned>(fd)) {}
  Changing(unsigned first, unsigned last);
  ~Changing();
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;

 private:
  void wait_for_reads() const;

  unsigned first_;
  unsigned last_;
};

}  // namespace farside::cache_preload
