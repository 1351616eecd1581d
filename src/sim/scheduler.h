// scheduler.h — virtual time: what happens next, among all that can, told by one seed.
//
// Everything is an event at a moment: a thread that goes on, a word that arrives, a store that leaves a buffer, a
// fault. The earliest goes first; of equals the one that was put in first. Interleavings come from the moments, which
// are drawn at random when an event is put in.
//
// Or they come from priorities (after Burckhardt, Kothari, Musuvathi, Nagarakatte, "A randomized scheduler with
// probabilistic guarantees of finding bugs", 2010): of the events that are due within a window, the one of the highest
// priority goes first. Each thread has a random priority, what it posts has the same, and at a few steps the priority
// of what was about to happen becomes the lowest. So one thread stands still at one step while the others take many:
// an order that uniform delays reach rarely.
//
// Guarantee: the same seed and the same program give the same events, and so the same hash.
//
// A Chooser may take the place of the moments (explore.h). Then time stands still while anything can happen, and what
// waits for a moment (a deadline, a pause) goes on only when nothing else can.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "farside/fabric/time.h"

#include "sim/fiber.h"

namespace farside::sim {

using ProcessId = std::uint32_t;

[[nodiscard]] std::string hexadecimal(std::uint64_t value);

/// Decides what happens next, and is told what each step has to do with others.
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// One of the steps that can happen now, each by its number; nothing ends the run.
  virtual std::optional<std::uint64_t> choose(std::span<const std::uint64_t> ready) = 0;
  /// No step can happen: what waits for the next moment does.
  virtual void time_passes() = 0;
  /// The present step made step `number`.
  virtual void made(std::uint64_t number) = 0;
  enum class Access : std::uint8_t { look, same, change };
  /// The present step looked at `place`, stored there what was there before, or changed it.
  virtual void touched(std::uint64_t place, Access access) = 0;
};

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
  [[nodiscard]] bool one_in(std::uint64_t n) { return chooser_ == nullptr && n != 0 && random() % n == 0; }

  class Group;
  /// Executes `action` after `delay`, whichever processes are dead or paused by then; with `ready`, not before that
  /// holds. It is the same for all actions of a `group`.
  void after(Duration delay, std::function<void()> action, std::function<bool()> ready = {}, Group* group = nullptr);

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
  /// Within a thread: others may go first, for up to `most`.
  void step_aside(Duration most);
  /// Within a thread: has `publish` called when the thread next releases a mutex. Replaces what `owner` gave before.
  void before_release(const void* owner, std::function<void()> publish);
  /// Within a thread: it is about to release a mutex, so the next holder comes after all that it has stored.
  void release();
  /// Whether a thread is running, and not an action or the program that made the scheduler.
  [[nodiscard]] bool in_thread() const noexcept { return in_thread_; }
  /// Within a thread: goes on when it is woken or go_on is called, and only then.
  void sleep_until_gone_on() { threads_[running_]->fiber->leave(); }
  /// The thread goes on at this very moment. For actions, not for other threads.
  void go_on(Ticket ticket);

  /// Its threads never go on.
  void kill(ProcessId process);
  void pause(ProcessId process) {
    state(process).paused = true;
    ++state(process).pauses;
  }
  void resume(ProcessId process);
  [[nodiscard]] bool dead(ProcessId process) { return state(process).dead; }
  [[nodiscard]] bool paused(ProcessId process) { return state(process).paused; }
  /// How often it was paused.
  [[nodiscard]] std::uint64_t pauses(ProcessId process) { return state(process).pauses; }

  /// From here on the order comes from priorities, which are drawn now.
  void choose_by_priorities();

  /// Runs until every thread of a living process has finished, or to `limit`. False when some had not finished.
  bool run(Time limit);
  /// Lets happen what is still under way, to `limit`.
  void settle(Time limit);

  // Exhaustive schedules.

  /// From here on `chooser`, which outlives this, says what happens next. Nothing is under way: settle comes first.
  void choose_by(Chooser& chooser) { chooser_ = &chooser; }
  [[nodiscard]] bool chosen() const noexcept { return chooser_ != nullptr; }
  void touch(std::uint64_t place, Chooser::Access access) {
    if (chooser_ != nullptr) chooser_->touched(place, access);
  }
  /// The place that stands for what a thread knows of its operations.
  [[nodiscard]] static std::uint64_t place_of_thread(std::uint32_t thread) { return 1ULL << 63U | thread; }

  // Traces.

  /// Takes the step into the hash and, when told to keep them, its text among the readable ones.
  template <class Text>
  void record(std::uint64_t what, const Text& text) {
    record(what);
    if (keep_steps_) steps_.push_back(std::to_string(now_.nanoseconds) + " ns: " + text());
  }
  void record(std::uint64_t what);
  void keep_steps() { keep_steps_ = true; }
  /// How the steps call a word of a process's memory and its value; "offset: value" unless said otherwise.
  using WordName = std::function<std::string(std::uint64_t offset, std::uint64_t value)>;
  void call_words(WordName name) { word_name_ = std::move(name); }
  [[nodiscard]] std::string word(std::uint64_t offset, std::uint64_t value) const;
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] const std::vector<std::string>& steps() const noexcept { return steps_; }

 private:
  struct Event {
    Time at;
    std::uint64_t order;
    std::function<void()> action;
    std::function<bool()> ready;
    Group* group;
    Duration retry;
    std::int64_t priority;
    bool open = false;   // it stands in open_
    bool polls = false;  // for its group
  };
  // Events stay where they are while they are sorted: the heaps hold what is compared, and where the event is.
  struct Moment {
    Time at;
    std::uint64_t order;
    Event* event;
  };
  struct Later {
    bool operator()(const Moment& a, const Moment& b) const { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };
  struct Urgency {
    std::int64_t priority;
    Moment moment;
  };
  struct LessUrgent {
    bool operator()(const Urgency& a, const Urgency& b) const {
      return a.priority != b.priority ? a.priority < b.priority : Later{}(a.moment, b.moment);
    }
  };
  struct Thread {
    ProcessId process;
    std::unique_ptr<Fiber> fiber;
    std::uint64_t turn = 0;    // advances when it goes on, so that a wake-up that comes late finds another one
    bool held = false;         // its turn came while its process was paused
    std::uint64_t random = 0;  // with a chooser: each thread draws from its own numbers, whatever goes first
    std::int64_t priority = 0;
    std::map<const void*, std::function<void()>> before_release{};
  };
  struct ProcessState {
    bool dead = false;
    bool paused = false;
    std::uint64_t pauses = 0;
  };

  class Running;

  ProcessState& state(ProcessId process);
  [[nodiscard]] bool is_due(Time limit) const;
  void do_next();
  /// Does it, or puts it off while it is not ready.
  void execute(Event& event);
  void execute_by_priority();
  void hold_up(Event& event);
  void release_group(Event& polling);
  [[nodiscard]] Event& add(Event event);
  void run_and_drop(Event& event);
  void put_in(Event& event);
  /// Returns the earliest of events_, which holds it no more.
  Event& take_earliest();
  void open(Event& event);
  /// Returns the most urgent of open_, which holds it no more.
  Event& take_most_urgent();
  /// The moment of the earliest event in open_; none when that is empty.
  [[nodiscard]] std::optional<Time> first_open_moment();
  [[nodiscard]] bool do_chosen();

  Time now_{};
  std::uint64_t random_;
  std::uint64_t orders_ = 0;
  std::deque<Event> storage_;   // of all events; a deque, so that they stay where they are
  std::vector<Event*> free_;    // places in it
  std::vector<Moment> events_;  // a heap
  Chooser* chooser_ = nullptr;
  // A heap. With a chooser: events that do not wait for a moment; with priorities: those within the window.
  std::vector<Urgency> open_;
  std::vector<Moment> open_moments_;  // with priorities: a heap of the events in open_, and of some that left it
  std::optional<Duration> window_;    // with priorities: how much later than the earliest event
  std::int64_t priority_ = 0;         // of what is happening
  std::int64_t lowest_priority_ = 0;  // of any so far
  std::uint64_t one_in_demotions_ = 0;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<ProcessState> processes_;
  std::uint32_t running_ = 0;
  bool in_thread_ = false;
  std::uint32_t unfinished_ = 0;  // threads of living processes

  std::uint64_t hash_ = 0;
  bool keep_steps_ = false;
  WordName word_name_;
  std::vector<std::string> steps_;
};

/// Events whose `ready` is the same: while they are held up, one of them polls it for all. Outlives them.
class Scheduler::Group {
  friend class Scheduler;
  bool polled_ = false;
  std::vector<Event*> held_;  // all but the one that polls
};

}  // namespace farside::sim
