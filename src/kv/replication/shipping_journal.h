// shipping_journal.h — a primary's changes, kept in the memory of its standby (shipping_ring.h): WRITTEN there, so no
// processor of the standby takes part.
//
// It guarantees: what was appended before a `sync` that succeeded is in the standby's memory, whole, and the standby
// had not given up when it was written, unless there is none (Standing). A connection that breaks while the standby
// lives is made anew, to the same memory of the same process.
//
// A server that is alone may be given a standby that has nothing yet: it is taught, that is, shipped a copy of what the
// store has, and the changes that are made meanwhile. Nothing waits for it before its copy is full; if it does
// not follow until then, it is dropped.
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "farside/fabric/fabric.h"

#include "base/backoff.h"
#include "kv/protocol/rules.h"
#include "kv/protocol/time_limits.h"
#include "kv/replication/shipped_entry.h"
#include "kv/replication/shipping_ring.h"
#include "kv/replication/staged_bytes.h"
#include "kv/server/journal.h"
#include "kv/server/store_copy.h"

namespace farside::kv {

struct ShippingSettings {
  /// 2: what a client is told to be done is in the standby's memory. 1: or there is no standby.
  std::uint32_t min_copies = 1;
  /// At which a standby is taught; 0: as fast as it goes.
  std::uint64_t bytes_per_second = 0;
  /// Timeout of sync, with a standby that neither takes nor is dead; longer than it takes until a death on another host
  /// is known. No client is answered in that time.
  Duration sync = time_limits::kSync;
  /// Until it is asked whether that is dead: for each of so many bytes that are under way, and once more.
  Duration slice = time_limits::kSyncSlice;
  std::uint64_t bytes_per_slice = 1U << 20U;
  /// While nothing is shipped: of a look whether the standby follows, and from one to the next.
  Duration look = time_limits::kStandbyLook;
  Duration between_looks = time_limits::kBetweenStandbyLooks;
  /// Nothing is answered before the standby, which takes what its disk has kept, has taken it.
  bool awaits_taking = false;
  /// For an attempt to ship to a standby that is taught; no client is answered in that time.
  Duration lesson = time_limits::kLesson;
};

class ShippingJournal final : public Journal {
 public:
  /// As the authority on deaths reports for certain: a standby that is dead serves no client, and never will.
  using IsDead = std::function<bool()>;
  /// How the standby is reached.
  struct Way {
    const RemoteRegion* ring = nullptr;            ///< the standby's
    std::optional<RemoteWord<AtomicWord>> bell{};  ///< wakes it
  };
  /// Connects to the standby again after the fabric has lost it. None: no process answers, or another one than before.
  using ReachAgain = std::function<std::optional<Way>()>;

  /// The ring is new. What `way` names stays until there is another way. Without one it is alone.
  ShippingJournal(Fabric& fabric, Channel& channel, const std::optional<Way>& way, IsDead is_standby_dead,
                  ReachAgain reach_again, const ReplicaRules& rules = {}, const ShippingSettings& settings = {});

  /// The share that the standby has.
  enum class Standing : std::uint8_t {
    full,   ///< all that was kept
    alone,  ///< there is none: it is dead, or has given up
    taught  ///< a part of it; this server goes on as if alone
  };
  /// Says to readers that this server is not alone any more. True when none of them relies on that it is.
  using RetractAlone = std::function<bool()>;

  /// Requires: it is alone, and all that was appended is kept. The standby behind `way` has nothing. `store`, whose
  /// changes these are, outlives this, and has been served since `epoch`. `retract` is called before the standby counts
  /// as full, until it returns true. `store_number`, if it is not 0, is what both servers' disks have the store by.
  void teach(const Way& way, const Store& store, std::uint64_t epoch, RetractAlone retract,
             std::uint64_t store_number = 0);

  void append(std::span<const std::byte> request, std::span<const TakenPlace> places) override;
  void append_gone(std::span<const GoneKey> keys) override;
  bool sync() override;
  /// Returns whether the standby has taken all that was kept by a sync that succeeded; true where that is not required.
  [[nodiscard]] bool await_taking();
  [[nodiscard]] bool takes() const override { return standing_ != Standing::full || staged_.size() <= ring_.capacity; }
  [[nodiscard]] bool has_enough_copies() const override {
    return settings_.min_copies < 2 || (standing() == Standing::full && !is_standby_dead_());
  }
  [[nodiscard]] MemoryUse with_state(MemoryUse use) const override;
  /// Requires: it is alone. The server begins to serve: until then nothing was missing.
  void begin_to_serve() { degraded_since_ = fabric_.now(); }
  bool step() override;

  /// A standby counts as full when the end of its copy has been flushed.
  [[nodiscard]] Standing standing() const noexcept {
    return standing_ == Standing::full && flushed_ < full_from_ ? Standing::taught : standing_;
  }
  /// For it lives, but could not follow.
  [[nodiscard]] bool standby_gave_up() const noexcept { return standby_gave_up_; }

 private:
  static constexpr int kMaxDoublings = 2;  ///< of a slice that was too short
  static constexpr Duration kFirstPause = std::chrono::microseconds(20);
  static constexpr Duration kMaxPause = std::chrono::milliseconds(1);
  static constexpr std::size_t kCopiedAtOnce = 64;  ///< keys
  static constexpr int kWalksAtOnce = 16;
  static constexpr std::uint64_t kMaxCopiedAhead = 256U << 10U;
  /// More changes than that a standby that is taught does not catch up with.
  static constexpr std::uint64_t kMaxBehind = 4 * ShippedEntry::kMaxBytes;
  static constexpr int kRestsAfterLesson = 8;  ///< as long, when nothing got through
  /// At the rate at which it is taught.
  static constexpr Duration kMadeUpFor = std::chrono::milliseconds(20);

  /// The result of an attempt to write on.
  enum class Came : std::uint8_t { to_the_end, on, nowhere };
  [[nodiscard]] Came write_on(Deadline deadline);
  [[nodiscard]] bool flush(Deadline deadline);
  /// After an attempt from which nothing came. False: it was the last one in time.
  [[nodiscard]] bool bear_with_standby(Deadline deadline, Backoff<Duration>& backoff);
  void stage(ShippedPart part, std::span<const TakenPlace> places, std::span<const GoneKey> gone,
             std::span<const std::byte> request);
  void stage(std::span<const std::byte> entry);
  [[nodiscard]] std::uint64_t progress() const { return most_written_ + flushed_ + taken_; }
  bool teach_on();
  [[nodiscard]] bool ship_some();
  [[nodiscard]] bool has_been_taken_from();
  void finish_lesson();
  void go_back(Outcome failed);
  void look_for_room(Deadline deadline);
  void look_at_the_standby();
  void note_taken(std::uint64_t word);
  [[nodiscard]] Duration slice() const;
  /// Makes a connection that broke anew, if it can be.
  void reconnect();
  void go_alone();

  Fabric& fabric_;
  Channel& channel_;
  Way way_{};  ///< unless it is alone
  ShippingRing ring_{};
  const IsDead is_standby_dead_;
  const ReachAgain reach_again_;
  const ReplicaRules rules_;
  const ShippingSettings settings_;
  StagedBytes staged_;         ///< the log from `flushed_` on
  std::uint64_t flushed_ = 0;  ///< up to there the log is in the standby's memory, and no WRITE of it is under way
  std::uint64_t written_ = 0;
  std::uint64_t most_written_ = 0;
  std::uint64_t taken_ = 0;  ///< up to there the standby needs the ring no more
  int doublings_ = 0;
  Duration reconnect_backoff_{};
  Standing standing_ = Standing::alone;
  bool standby_gave_up_ = false;
  Time degraded_since_;  ///< if the standby is not full
  // For a standby that is taught.
  std::uint64_t full_from_ = 0;  ///< the place of the log behind the end of the copy
  const Store* store_ = nullptr;
  std::uint64_t epoch_ = 0;
  bool standby_has_disk_ = false;
  std::optional<StoreCopy> copy_{};  ///< none: all of it is staged
  RetractAlone retract_{};
  Time give_up_at_{};
  Time next_lesson_{};
  Time next_look_{};
  Backoff<Duration> between_looks_{settings_.between_looks, time_limits::kMaxBetweenStandbyLooks};
};

}  // namespace farside::kv
