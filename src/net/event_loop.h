// event_loop.h — one thread that sleeps until one of many descriptors has something to say.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>

#include "farside/base/fd.h"

#include "base/backoff.h"
#include "base/task_queue.h"

namespace farside::net {

/// The loop runs on a thread of its own, with all signals blocked, from construction to stop(). It calls handlers one
/// at a time. watch, change, forget, rest, tick, after and after_each_round are for that thread: reach it with post.
class EventLoop {
 public:
  using Handler = std::function<void(std::uint32_t events)>;

  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop() { stop(); }

  /// Calls `handler` while `fd` has one of `events` (as epoll names them). `fd` must stay open until it is forgotten.
  void watch(int fd, std::uint32_t events, Handler handler);
  void change(int fd, std::uint32_t events);
  void forget(int fd);
  /// For a descriptor that stays readable while nothing can be done about it: a listener, when no descriptor is left to
  /// accept with. Its handler is not called for EPOLLIN until the pause that this returns is over, and the loop serves
  /// the others meanwhile. Pauses grow exponentially, 20 ms to 1 s, until the handler returns without calling this.
  std::chrono::milliseconds rest(int fd);

  /// Calls `handler` every `period`; no timer runs for a period of zero.
  void tick(std::chrono::milliseconds period, std::function<void()> handler);

  /// Calls `task` once when `delay` has passed. Takes no descriptor.
  void after(std::chrono::milliseconds delay, std::function<void()> task);

  /// Calls `handler` when the handlers of all that had something to say at once have run.
  void after_each_round(std::function<void()> handler) { after_round_ = std::move(handler); }

  /// For another thread, while the loop's is in the handler of after_each_round and changes nothing: a new thread is
  /// the loop's from now on. The one before ends with that handler, in which it is not the loop's any more; it is the
  /// caller's to join. Throws Error, and nothing changes, when the system gives no thread.
  [[nodiscard]] std::thread hand_over();

  /// Runs `task` on the loop's thread, soon. Any thread may call it.
  void post(std::function<void()> task) { posted_.post(std::move(task)); }

  /// Runs what was posted before, ends the thread and drops every handler. Not for the loop's own thread.
  void stop();

 private:
  struct Watched {
    Handler handler;
    Backoff<std::chrono::milliseconds> rests;
    bool has_rested = false;  ///< since the handler was called last
  };

  void run(std::uint64_t turn);
  /// Has the loop's thread run what was posted.
  void wake() const;
  void run_due();
  /// Until the first of later_, as epoll_wait takes it.
  [[nodiscard]] int wait_ms() const;

  Fd epoll_;
  Fd wakeup_;
  Fd timer_;
  std::unordered_map<int, std::shared_ptr<Watched>> watched_;
  std::function<void()> tick_;
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> later_;
  std::function<void()> after_round_;
  TaskQueue posted_;
  bool stopping_ = false;
  std::atomic<std::uint64_t> turn_ = 0;  // how often it was handed over
  std::thread thread_;
};

}  // namespace farside::net
