// scheduler.h — virtual time: what happens next, among all that can, told by one seed.
//
// Everything is an event at a moment: a thread that goes on, a word that arrives, a store that leaves a buffer, a
// fault. The earliest goes first; of equals the one that was put in first. Interleavings come from the moments, which
// are drawn at random by whoever puts an event in.
//
// Guarantee: the same seed and the same program give the same events, and so the same hash.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "farside/fabric/time.h"

#include "sim/fiber.h"

namespace farside::sim {

using ProcessId = std::uint32_t;

class Scheduler {
 public:
  explicit Scheduler(std::uint64_t seed) : random_(seed) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  [[nodiscard]] Time now() const noexcept { return now_; }
  [[nodiscard]] std::uint64_t random();
  /// A duration up to `most`; at random.
  [[nodiscard]] Duration up_to(Duration most);
  /// True once in `n`, on average; never when n is 0.
  [[nodiscard]] bool one_in(std::uint64_t n) { return n != 0 && random() % n == 0; }

  /// Has `action` happen, whoever is dead or paused by then.
  void after(Duration delay, std::function<void()> action);

  // Threads.

  void spawn(ProcessId process, std::function<void()> body);
  /// Within a thread: goes on at `until`, or a little after a call of wake with the ticket that was taken before.
  struct Ticket {
    std::uint32_t thread;
    std::uint64_t turn;
  };
  [[nodiscard]] Ticket ticket() const;
  void sleep_until(Time until);
  void wake(Ticket ticket);

  /// Its threads never go on.
  void kill(ProcessId process);
  void pause(ProcessId process) { state(process).paused = true; }
  void resume(ProcessId process);
  [[nodiscard]] bool dead(ProcessId process) { return state(process).dead; }

  /// Runs until every thread of a living process has finished, or to `limit`. False when some had not finished.
  bool run(Time limit);

  // Traces.

  /// Takes the step into the hash and, when told to keep them, among the readable ones.
  void record(std::uint64_t what, const std::function<std::string()>& text);
  void keep_steps(bool keep) { keep_steps_ = keep; }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] const std::vector<std::string>& steps() const noexcept { return steps_; }

 private:
  struct Event {
    Time at;
    std::uint64_t order;
    std::function<void()> action;
    friend bool operator>(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };
  struct Thread {
    ProcessId process;
    std::unique_ptr<Fiber> fiber;
    std::uint64_t turn = 0;  // advances when it goes on, so that a wake-up that comes late finds another one
    bool held = false;       // its turn came while its process was paused
  };
  struct ProcessState {
    bool dead = false;
    bool paused = false;
  };

  ProcessState& state(ProcessId process);
  void go_on(Ticket ticket);

  Time now_{};
  std::uint64_t random_;
  std::uint64_t orders_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<ProcessState> processes_;
  std::uint32_t running_ = 0;
  std::uint32_t unfinished_ = 0;  // threads of living processes

  std::uint64_t hash_ = 0;
  bool keep_steps_ = false;
  std::vector<std::string> steps_;
};

}  // namespace farside::sim
