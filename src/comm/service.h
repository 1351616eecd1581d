// service.h — the thread that does in the background what callers started and left, and that others can call upon.
//
// It sleeps on a word of this process's memory, its bell; a process that requests something adds one to it. Tasks are
// done one after another, in the order of issue; `finished` is the number of the last one. A task that waits for other
// processes is called again after each ring.
//
// A thread that waits for copies which are next makes them itself, when they are of mapped memory: to wake the service
// thread takes longer than most of them. So one thread at a time is the *worker*: the service thread, or a waiter.
//
// Guarantee: an exception of a task ends that task alone: each wait for it throws it. One of on_ring's work has no wait
// that could throw it: it is logged, and the work is called again after the next ring.
//
//   bell       AtomicWord    how often it was rung
//   finished   ControlWord   written by the worker alone
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <variant>
#include <vector>

#include "farside/comm/comm.h"

#include "base/mutex.h"
#include "base/throttled_log.h"
#include "comm/copies.h"
#include "comm/failures.h"

namespace farside::comm {

class Service {
 public:
  /// Collective.
  explicit Service(team::Team& team);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  using Work = std::variant<Comm::Task, Copy>;
  Request issue(Channel& channel, Work work);
  [[nodiscard]] std::uint64_t issued() const;
  [[nodiscard]] bool idle() const;
  [[nodiscard]] bool finished(const Request& request) const;
  /// Throws UsageError when the thread itself would wait.
  [[nodiscard]] Status wait(Channel& channel, const Request& request, Deadline deadline);
  [[nodiscard]] bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  [[noreturn]] static void refuse_wait(const char* for_what);

  /// The deadline of the next piece of background work: while this ends, none is begun that lasts longer.
  [[nodiscard]] Deadline next_deadline() const;

  void on_ring(std::function<void(Channel&)> work);
  Outcome ring(Channel& channel, team::Rank rank, Deadline deadline) const;

 private:
  struct Issued {
    Work work;
    std::optional<Deadline> deadline{};  ///< since it was begun
  };

  /// The calling thread is the worker as long as it lives.
  class Working;

  void serve(const std::stop_token& stop);
  /// Looks for work once; sleeps until the next ring when there was none.
  void serve_once(Channel& channel);
  void do_on_ring(Channel& channel);
  bool do_next(Channel& channel);
  bool do_task(Channel& channel, Issued& task);
  /// The copies that are next, of the operations up to `last`; those that `may_take` refuses end them.
  template <class MayTake>
  [[nodiscard]] std::vector<Copy> take_copies(std::uint64_t last, MayTake may_take) REQUIRES(mutex_);
  [[nodiscard]] bool is_for_a_waiter(const Copy& copy) const;
  /// Makes copies that are next, up to `last`, if they are for a waiter, and no thread is the worker. False: there are
  /// none.
  bool do_own(Channel& channel, std::uint64_t last);
  void do_copies(Channel& channel, std::span<const Copy> copies);
  [[nodiscard]] Made make(Channel& channel, std::span<const Copy> copies) const;
  /// The standing of the ranks that a copy has part in. unanswered: one of them did not answer its last copy. given_up:
  /// and this one was issued before that ended, so it is not tried.
  enum class Standing : std::uint8_t { good, unanswered, given_up };
  /// The standing of the copy that is next but `ahead`.
  [[nodiscard]] Standing standing(const Copy& copy, std::size_t ahead) const;
  void remove_first();
  void note_ends(std::span<const Status> ends);
  /// The next `count` operations have thrown.
  void note_thrown(std::size_t count, const std::exception_ptr& error);
  void tell(Channel& channel);
  [[nodiscard]] LocalWord<ControlWord> finished_word() const;

  team::Team& team_;
  std::unique_ptr<team::SymmetricRegion> bells_;
  // A region of its own, so that the bell wakes no thread that waits for a result.
  std::unique_ptr<team::SymmetricRegion> results_;

  mutable Mutex mutex_;
  std::deque<Issued> tasks_ GUARDED_BY(mutex_);
  bool found_nothing_ GUARDED_BY(mutex_) = true;  ///< the thread, when it looked for tasks last: it may sleep
  bool is_worked_ GUARDED_BY(mutex_) = false;     ///< a thread is the worker
  std::atomic<std::uint64_t> issued_ = 0;         ///< written under mutex_
  std::atomic<std::uint64_t> finished_ = 0;       ///< the same; as the word says, or is about to
  std::uint64_t told_ = 0;                        ///< to the waiting threads; the worker's own
  /// The same: the ranks that did not answer their last copy, and the last operation that this takes with it.
  std::map<team::Rank, std::uint64_t> given_up_;
  Failures failures_ GUARDED_BY(mutex_);
  std::vector<std::function<void(Channel&)>> on_ring_ GUARDED_BY(mutex_);
  std::optional<Deadline> stop_by_ GUARDED_BY(mutex_){};  ///< once it ends

  ThrottledLog log_;  ///< the thread's own
  std::jthread thread_;
};

}  // namespace farside::comm
