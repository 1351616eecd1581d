// comm.h — copies that finish in the background, and the thread that carries on what callers started and left
// (Matsuda, Tanaka, Kubota, Sato: NICAM, section 3; its primitives' names are mapped in docs/comm.md).
//
// A call returns at once. What goes to mapped memory and is small is done by then; everything else is done by the
// process's service thread while the program computes, or by a thread that waits for it, in the order in which it was
// issued; puts and gets that follow each other are under way at once. A Request stands for what was issued, and any
// thread may look whether it is finished.
//
// Outcomes: done; timed_out; link_lost, as of the fabric; peer_lost, with the rank that was lost. Work that makes no
// progress for a minute ends in timed_out by itself; a transfer does not while its bytes move, whatever its size. A
// put or get that ends so takes with it those of the same rank that have been issued by then: so a rank that does not
// answer holds up what was issued for others behind them for a minute, once, however many there are. What is issued for
// that rank later has a second, until one of them has ended well.
//
// Thread safety: every call, from any thread; each thread brings its own Channel. Places that an operation reads from
// or writes to must stay until its Request is finished.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "farside/team/team.h"

namespace farside::comm {

/// How an operation ended, and the rank whose loss ended it.
struct [[nodiscard]] Status {
  Outcome outcome = Outcome::done;
  std::optional<team::Rank> lost{};
  /// A barrier or collective operation has ended at all members, with its result. What failed so is only what this rank
  /// had written to ranks outside the group.
  bool outside = false;

  [[nodiscard]] bool done() const noexcept { return outcome == Outcome::done; }
};

[[nodiscard]] inline bool is_done(const Status& status) noexcept { return status.done(); }

/// The status of an operation on `peer`.
[[nodiscard]] inline Status status_with(Outcome outcome, team::Rank peer) {
  return {outcome, outcome == Outcome::peer_lost ? std::optional(peer) : std::nullopt};
}

/// Issued operations: one, or several that follow each other in the order of issue. A default Request names none, and
/// has finished; so has an operation that was done within the call that issued it.
struct Request {
  std::uint64_t first = 1;
  std::uint64_t last = 0;

  [[nodiscard]] bool none() const noexcept { return first > last; }
};

/// Both, and what was issued between them, by other threads too.
[[nodiscard]] inline Request joined(const Request& a, const Request& b) {
  if (a.none() || b.none()) return a.none() ? b : a;
  return {std::min(a.first, b.first), std::max(a.last, b.last)};
}

/// The ways in which the target of a copy learns that all of it is visible there.
struct NoNotice {};
struct SetWord {
  RemoteWord<ControlWord> word;
  std::uint64_t value;
};
struct AddToWord {
  RemoteWord<AtomicWord> word;
  std::uint64_t addend;
};
using Notice = std::variant<NoNotice, SetWord, AddToWord>;

/// One piece of a transfer that is not in one piece (parts.h makes those of strided and indexed ones).
struct Part {
  RemoteSpan remote;
  LocalSpan local;
};

/// A value that a word of remote atomics may hold.
template <class T>
concept Number64 = sizeof(T) == 8 && (std::integral<T> || std::floating_point<T>);

/// Copies, notices and atomics that this process has issued to a rank, and the bytes they move.
struct Traffic {
  std::uint64_t operations;
  std::uint64_t bytes;
};

class Comm {
 public:
  /// Transfers to mapped memory up to this size are made by the caller: handing them over would cost more.
  static constexpr std::uint64_t kInlineBytes = 64U << 10U;

  /// Collective. Throws Error when it cannot be set up.
  explicit Comm(team::Team& team);
  /// Ends the service thread's present task, within a minute; tasks that it has not begun never happen. So memory that
  /// is declared before a Comm may go with it after an error, whatever is under way. Not collective: a rank that still
  /// waits for this one gets, at worst, timed_out (docs/protocols/comm.md, "Leaving").
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  [[nodiscard]] team::Team& team() const noexcept;
  [[nodiscard]] std::unique_ptr<Channel> open_channel() const { return team().fabric().open_channel(); }

  // Copies. Order between them there is none; a notice follows the bytes it belongs to. UsageError is thrown where the
  // two sides have different lengths; then nothing was issued.

  Request put(Channel& channel, const RemoteSpan& to, LocalSpan from, const Notice& notice = {});
  Request get(Channel& channel, LocalSpan into, const RemoteSpan& from);
  /// All parts are under way at once; the notice follows the last of them. They may be of several ranks.
  Request put(Channel& channel, std::vector<Part> parts, const Notice& notice = {});
  Request get(Channel& channel, std::vector<Part> parts);
  /// Between any two ranks, with no part in it of their programs: this process reads and writes.
  Request copy(Channel& channel, RemoteSpan to, RemoteSpan from, const Notice& notice = {});
  Request notify(Channel& channel, const Notice& notice);

  // Atomics, awaited.

  template <Number64 T>
  Result<T, Status> fetch_add(Channel& channel, RemoteWord<AtomicWord> word, T addend, Deadline deadline) {
    if constexpr (std::integral<T>) {
      return as<T>(fetch_add_bits(channel, word, std::bit_cast<std::uint64_t>(addend), deadline));
    } else {
      return fetch_update<T>(
          channel, word, [addend](T old) { return old + addend; }, deadline);
    }
  }
  /// Repeats COMPARE_SWAP until no other change came in between.
  template <Number64 T>
  Result<T, Status> fetch_update(Channel& channel, RemoteWord<AtomicWord> word, const std::function<T(T)>& update,
                                 Deadline deadline) {
    const auto on_bits = [&update](std::uint64_t old) {
      return std::bit_cast<std::uint64_t>(update(std::bit_cast<T>(old)));
    };
    return as<T>(fetch_update_bits(channel, word, on_bits, deadline));
  }

  [[nodiscard]] Traffic traffic(team::Rank rank) const;

  // Requests.

  /// Everything that this process, on any thread, has issued after `since`; without it, since the Comm was made.
  [[nodiscard]] Request issued(const Request& since = {}) const;
  /// Nothing of it is under way any more, whether it succeeded or failed.
  [[nodiscard]] bool finished(const Request& request) const;
  /// Waits until `request` has finished, each operation of it. Done when all have succeeded; otherwise as the first one
  /// that failed. timed_out also when the deadline passes before: `finished` is false then.
  /// A failure is not used up by being returned: each wait for that operation, on any thread, at any time, is
  /// told. So a wait for `issued()` fails for good after one failure; to go on after it, wait for what was issued since
  /// then. (Of more than 1,024 failures with successes between them, the oldest are remembered as one range: what
  /// succeeded within it reads as failed as well, like the first of it. No failure ever reads as done.)
  /// A Task that threw has failed as well, and each wait for it throws the same.
  /// The wait makes copies of mapped memory that are next itself, up to 8 MiB or 64 copies at a time, and ends later
  /// than its deadline by as much at most. Throws UsageError on the service thread when `request` has not finished:
  /// that thread would wait for itself.
  [[nodiscard]] Status wait(Channel& channel, const Request& request, Deadline deadline) const {
    return request.none() ? Status{} : wait_unfinished(channel, request, deadline);
  }

  // For primitives that are built on this.

  /// For what is allocated next, the same on all ranks: `what` and a number.
  [[nodiscard]] std::string next_name(const std::string& what);

  /// Ends with done when what it wrote is visible. It gives up at the deadline. With none it waits for others, and is
  /// called again when a rank rang here, at the latest after a second. What it throws ends it, and each wait for it
  /// throws that.
  using Task = std::function<std::optional<Status>(Channel&, Deadline)>;
  /// Has the service thread do it, after what was issued before. What it refers to, it had better own.
  Request in_background(Channel& channel, Task task);
  /// The same, but here and now when it is `at_once`, that is small and of memory that is mapped, so that nothing of it
  /// waits: it ends at its first call.
  Request act(Channel& channel, bool at_once, Task task);
  /// A minute from now: of the next piece of a Task that is large. Its own deadline is that of one that is not.
  [[nodiscard]] Deadline next_deadline() const;
  /// Nothing that was issued is unfinished.
  [[nodiscard]] bool idle() const;
  /// The caller is the service thread: a Task, or a handler of messages. It must not wait for others.
  [[nodiscard]] bool on_service_thread() const;
  /// Throws UsageError when it is.
  void check_may_wait(const char* for_what) const;
  /// Has the service thread call `work` now, after each ring here, and once a second, until the Comm goes. Exceptions
  /// of `work` are logged.
  void on_ring(std::function<void(Channel&)> work);
  Outcome ring(Channel& channel, team::Rank rank, Deadline deadline) const;

 private:
  Result<std::uint64_t, Status> fetch_add_bits(Channel& channel, RemoteWord<AtomicWord> word, std::uint64_t addend,
                                               Deadline deadline);
  Result<std::uint64_t, Status> fetch_update_bits(Channel& channel, RemoteWord<AtomicWord> word,
                                                  const std::function<std::uint64_t(std::uint64_t)>& update,
                                                  Deadline deadline);
  [[nodiscard]] Status wait_unfinished(Channel& channel, const Request& request, Deadline deadline) const;
  template <class T>
  static Result<T, Status> as(const Result<std::uint64_t, Status>& bits) {
    return {bits.status, std::bit_cast<T>(bits.value)};
  }

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace farside::comm
