// channel.h — what one thread posts one-sided operations through. Never shared between threads.
//
// Guarantees (docs/protocols/fabric.md has the whole memory model, tests/fabric/litmus_test.cc tries it):
//   - A READ or WRITE is a set of accesses of at most 8 bytes in any order; a word in it may be stored twice.
//   - Operations to one target are unordered unless a fence stands between them; across targets, and across
//     channels, only flush orders.
//   - Completion of a WRITE frees its source buffer. Visible at the target it is after flush.
//   - Atomics are atomic against atomics only.
//
// Outcomes:
//   done
//   timed_out  the deadline passed
//   link_lost  the connection to the target broke, or this process has no memory or descriptors for it. Nothing says
//              that the target is lost, so the operation may be tried again; the channel connects anew after a pause
//   peer_lost  the target is lost, as Fabric::lost says, for good; or it has taken this process's access away
// After each failure the operation may or may not have taken effect, or may still do so; local buffers are never
// touched again once the call returned.
//
// A failure spreads within its channel: when one operation times out or the link is lost, everything else that this
// channel has under way to the same target ends as well, in all batches, and WRITEs that had completed but were not
// flushed may be lost. The next flush, the next fence and the next signal to that target report that, each once; so
// does, once, what is posted after a fence. A caller that tries again begins with its first WRITE since its last flush:
// repeating only the operation that failed may publish data that are lost. Parts of a program that share a channel
// share its failures: a flush that failed for one of them is not repeated for the other. Each that must know has a
// channel of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "farside/fabric/region.h"
#include "farside/fabric/time.h"

namespace farside {

enum class [[nodiscard]] Outcome{done, timed_out, link_lost, peer_lost};

[[nodiscard]] std::string_view to_string(Outcome outcome);

/// Returns the outcome to act on, given the outcomes at two targets: a failure before done, and a failure that may
/// concern a living peer before peer_lost.
constexpr Outcome graver(Outcome one, Outcome other) {
  return one == Outcome::done || (one == Outcome::peer_lost && other != Outcome::done) ? other : one;
}

[[nodiscard]] constexpr bool is_done(Outcome outcome) noexcept { return outcome == Outcome::done; }

/// How an operation ended, and the value that it brought, which is meaningful only when done. An atomic brings the
/// word's old value.
template <class T, class Status = Outcome>
struct [[nodiscard]] Result {
  Status status;
  T value;

  [[nodiscard]] bool done() const noexcept { return is_done(status); }
};

/// One operation as it is posted. Made by Channel and Batch.
struct Operation {
  enum class Kind : std::uint8_t { read, write, fetch_add, compare_swap, swap };

  Kind kind;
  const RemoteRegion* region;
  std::uint64_t offset;
  std::byte* local;  ///< source, destination, or where an atomic's old value goes
  std::uint64_t bytes;
  std::uint64_t operand;   ///< the addend, or the new value
  std::uint64_t expected;  ///< COMPARE_SWAP only

  [[nodiscard]] bool is_atomic() const noexcept { return kind != Kind::read && kind != Kind::write; }
};

/// The state of the operations posted under it.
struct Completion {
  std::uint32_t pending = 0;
  Outcome outcome = Outcome::done;  ///< the first failure, once pending is 0

  void record(Outcome of_one) noexcept {
    if (outcome == Outcome::done) outcome = of_one;
  }
};

class Channel {
 public:
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // One operation, posted and awaited.

  Outcome read(LocalSpan into, RemoteSpan from, Deadline deadline) {
    check_length(into, from);
    return run({Operation::Kind::read, from.region, from.offset, into.adapter_data(), from.bytes, 0, 0}, deadline);
  }
  /// Done means that `from` may be reused; visible at the target it is after flush.
  Outcome write(RemoteSpan to, LocalSpan from, Deadline deadline) {
    check_length(from, to);
    return run({Operation::Kind::write, to.region, to.offset, from.adapter_data(), to.bytes, 0, 0}, deadline);
  }
  template <SharedWord Word>
  Result<std::uint64_t> load(RemoteWord<Word> word, Deadline deadline) {
    return fetch({Operation::Kind::read, word.region, word.offset, nullptr, 8, 0, 0}, deadline);
  }
  Outcome store(RemoteWord<ControlWord> word, std::uint64_t value, Deadline deadline) {
    return write({word.region, word.offset, 8}, LocalSpan(value), deadline);
  }
  Result<std::uint64_t> fetch_add(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) {
    return fetch({Operation::Kind::fetch_add, word.region, word.offset, nullptr, 8, addend, 0}, deadline);
  }
  /// The swap took place if the value returned is `expected`.
  Result<std::uint64_t> compare_swap(RemoteWord<AtomicWord> word, std::uint64_t expected, std::uint64_t desired,
                                     Deadline deadline) {
    return fetch({Operation::Kind::compare_swap, word.region, word.offset, nullptr, 8, desired, expected}, deadline);
  }
  Result<std::uint64_t> swap(RemoteWord<AtomicWord> word, std::uint64_t value, Deadline deadline) {
    return fetch({Operation::Kind::swap, word.region, word.offset, nullptr, 8, value, 0}, deadline);
  }

  // Order.

  /// Operations posted earlier to `peer` take effect before those posted later to it; waits for earlier READs and
  /// atomics. Fails, once, when an earlier WRITE may be lost, and leaves it to flush to say so, too. Done after a fence
  /// that failed: none of those before it lands any more.
  virtual Outcome fence(PeerId peer, Deadline deadline) = 0;
  /// Returns done when every earlier WRITE of this channel to `peer` is visible there, to its CPU and to all readers,
  /// and none of them failed. A failure is reported once, by whichever flush. Done after a flush that failed:
  /// nothing that was posted before it lands any more, atomics included.
  virtual Outcome flush(PeerId peer, Deadline deadline) = 0;
  /// The same for every peer that this channel has written to. After a failure the others are flushed nevertheless.
  /// Returns peer_lost only if no peer failed otherwise.
  virtual Outcome flush_all(Deadline deadline) = 0;
  /// The same for those of `peers` that it has written to. The failures of other peers remain to be reported.
  virtual Outcome flush_each(std::span<const PeerId> peers, Deadline deadline) = 0;
  /// Orders this thread's own accesses to its Regions: those before it, before those after it.
  virtual void local_fence() = 0;

  // Signals.

  /// Stores `value` after everything posted earlier to that target is visible there, and wakes its waiters.
  Outcome write_signal(RemoteWord<ControlWord> word, std::uint64_t value, Deadline deadline) {
    return write_signals({&word, 1}, value, deadline);
  }
  /// The same for words of several targets, all under way at once. After a failure the others are stored nevertheless.
  virtual Outcome write_signals(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                                Deadline deadline) = 0;
  /// The same by FETCH_ADD, for words to which several signal.
  virtual Result<std::uint64_t> add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) = 0;

  /// Sleeps until `holds(value of word)`. Ends with peer_lost when one of `peers` is lost, also when it was connected
  /// anew meanwhile. Throws UsageError when `word` is not one of `region`: nothing would ever wake the caller.
  template <SharedWord Word, class Predicate>
  Outcome wait_until(const Region& region, LocalWord<Word> word, Predicate&& holds, Deadline deadline,
                     std::span<const PeerId> peers = {}) {
    if (&word.region() != &region) [[unlikely]]
      refuse_word(region, word.region());
    const Awaited awaited{peers, lives_of(peers)};
    for (;;) {
      const std::uint64_t value = word.load();
      if (holds(value)) return Outcome::done;
      const Outcome outcome = wait_change(region, word.offset(), value, deadline, awaited);
      if (outcome != Outcome::done) return holds(word.load()) ? Outcome::done : outcome;
    }
  }

 protected:
  /// Those whose loss ends a wait, and which of their lives it was that began it.
  struct Awaited {
    std::span<const PeerId> peers;
    std::uint64_t lives;
  };

  Channel() = default;

 private:
  friend class Batch;  // posts many operations under one Completion

  virtual void post(const Operation& operation, Completion& completion) = 0;
  /// Waits until `completion` has nothing pending. When the deadline passes, abandons what is pending so that no
  /// local buffer is touched afterwards, and records timed_out.
  virtual void finish(Completion& completion, Deadline deadline) = 0;
  /// Returns done when the word may differ from `seen` (spurious returns are allowed).
  virtual Outcome wait_change(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                              const Awaited& awaited) = 0;
  /// A number that changes when one of `peers` is connected anew.
  [[nodiscard]] virtual std::uint64_t lives_of(std::span<const PeerId> peers) const = 0;

  Outcome run(const Operation& operation, Deadline deadline) {
    Completion completion;
    post(operation, completion);
    if (completion.pending != 0) finish(completion, deadline);
    return completion.outcome;
  }
  Result<std::uint64_t> fetch(Operation operation, Deadline deadline) {
    alignas(8) std::uint64_t value = 0;
    operation.local = reinterpret_cast<std::byte*>(&value);
    const Outcome outcome = run(operation, deadline);
    return {outcome, value};
  }
  static void check_length(LocalSpan local, RemoteSpan remote) {
    if (local.bytes() != remote.bytes) [[unlikely]]
      refuse_length(local.bytes(), remote);
  }
  [[noreturn]] static void refuse_length(std::uint64_t local_bytes, RemoteSpan remote);
  [[noreturn]] static void refuse_word(const Region& waited_in, const Region& of_word);
};

/// Many operations under way at once, awaited together. Buffers and results must live until wait returns; a Batch
/// that goes before that waits for a short time and then abandons its operations.
class Batch {
 public:
  explicit Batch(Channel& channel) : channel_(channel) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch();

  void read(LocalSpan into, RemoteSpan from) {
    Channel::check_length(into, from);
    post({Operation::Kind::read, from.region, from.offset, into.adapter_data(), from.bytes, 0, 0});
  }
  void write(RemoteSpan to, LocalSpan from) {
    Channel::check_length(from, to);
    post({Operation::Kind::write, to.region, to.offset, from.adapter_data(), to.bytes, 0, 0});
  }
  void store(RemoteWord<ControlWord> word, std::uint64_t& value) {
    write({word.region, word.offset, 8}, LocalSpan(value));
  }
  void fetch_add(RemoteWord<AtomicWord> word, std::uint64_t addend, std::uint64_t& old) {
    post({Operation::Kind::fetch_add, word.region, word.offset, reinterpret_cast<std::byte*>(&old), 8, addend, 0});
  }
  void compare_swap(RemoteWord<AtomicWord> word, std::uint64_t expected, std::uint64_t desired, std::uint64_t& old) {
    post({Operation::Kind::compare_swap, word.region, word.offset, reinterpret_cast<std::byte*>(&old), 8, desired,
          expected});
  }
  void swap(RemoteWord<AtomicWord> word, std::uint64_t value, std::uint64_t& old) {
    post({Operation::Kind::swap, word.region, word.offset, reinterpret_cast<std::byte*>(&old), 8, value, 0});
  }

  /// Waits for everything posted since the last wait.
  Outcome wait(Deadline deadline);

 private:
  void post(const Operation& operation) { channel_.post(operation, completion_); }

  Channel& channel_;
  Completion completion_;
};

}  // namespace farside
