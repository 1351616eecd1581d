// overseer.h — a thread that looks after the calls of a server's other threads: one that waits for long has its clients
// and its session to itself, and another thread goes on for the others; and what it needs is asked whether it answers,
// until it does. It sleeps while there are no calls.
//
// Thread safety: wake, from any thread; the rest for the server's owner.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "farside/kv/session.h"

#include "base/mutex.h"
#include "kv/resp/overseer_clock.h"
#include "kv/resp/silent_servers.h"

namespace farside::kv {

class RespWorker;

class Overseer {
 public:
  using OpenSession = std::function<std::unique_ptr<Session>()>;

  /// `silent` and `clock` outlive it. Threads of their own open sessions, one at a time; the destructor waits for that.
  Overseer(SilentServers& silent, OpenSession open_session, OverseerClock& clock);
  ~Overseer() { stop(); }
  Overseer(const Overseer&) = delete;
  Overseer& operator=(const Overseer&) = delete;

  /// Begins, with a session of its own and a spare one for each worker: the first call may be the one that waits.
  /// Throws what `open_session` throws. The workers outlive its end.
  void start(std::vector<RespWorker*> workers);
  void stop();
  /// There is a call.
  void wake();
  [[nodiscard]] const OverseerClock& clock() const noexcept { return clock_; }

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  /// False: it is at its end.
  bool rest();
  void open_sessions();
  void look();
  void hear();
  [[nodiscard]] bool is_any_busy();

  SilentServers& silent_;
  const OpenSession open_session_;
  OverseerClock& clock_;
  std::vector<RespWorker*> workers_;
  std::unique_ptr<Session> session_;  // that asks whether servers answer
  std::future<std::unique_ptr<Session>> opened_;
  RespWorker* opened_for_ = nullptr;
  Clock::time_point next_try_{};  // to open sessions
  std::uint64_t calls_ = 0;       // when they were looked at last
  std::atomic<bool> is_asleep_ = false;
  Mutex mutex_;
  ConditionVariable wake_;
  bool ends_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace farside::kv
