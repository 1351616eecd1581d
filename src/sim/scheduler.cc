#include "sim/scheduler.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <utility>

#include "farside/base/mix.h"

#include "sim/mutex.h"

namespace farside::sim {

namespace {

// A thread that something woke does not go on at the very same moment.
constexpr Duration kLongestWakeUp = std::chrono::nanoseconds(500);

// Events that are held up are looked at again, with exponential backoff.
constexpr Duration kFirstRetry = std::chrono::microseconds(2);
constexpr Duration kLongestRetry = std::chrono::milliseconds(1);

}  // namespace

// While it lasts, also until an exception of the thread leaves it, a simulated thread runs.
class Scheduler::Running {
 public:
  explicit Running(Scheduler& scheduler)
      : scheduler_(scheduler), outer_(std::exchange(scheduler_of_simulated_thread(), &scheduler)) {
    scheduler_.in_thread_ = true;
  }
  ~Running() {
    scheduler_of_simulated_thread() = outer_;
    scheduler_.in_thread_ = false;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Scheduler& scheduler_;
  Scheduler* const outer_;
};

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 16> digits{};
  return "0x" + std::string(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr);
}

std::uint64_t Scheduler::random() {
  std::uint64_t& state = chooser_ == nullptr ? random_ : threads_[running_]->random;
  return mix(state += kMixStep);
}

Duration Scheduler::up_to(Duration most) {
  if (chooser_ != nullptr) return {};
  return Duration(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most.count() + 1)));
}

void Scheduler::after(Duration delay, std::function<void()> action, std::function<bool()> ready) {
  const auto [event, is_new] =
      events_.insert({now_ + delay, orders_++, std::move(action), std::move(ready), kFirstRetry, priority_});
  if (chooser_ == nullptr) return;
  chooser_->made(event->order);
  open(events_.extract(event));
}

void Scheduler::spawn(ProcessId process, std::function<void()> body) {
  const auto number = static_cast<std::uint32_t>(threads_.size());
  auto thread = std::make_unique<Thread>();
  thread->process = process;
  thread->fiber = std::make_unique<Fiber>(std::move(body));
  thread->random = number;
  if (window_) thread->priority = static_cast<std::int64_t>(random() >> 1U);
  threads_.push_back(std::move(thread));
  ++unfinished_;
  wake({number, 0});
}

Scheduler::Ticket Scheduler::ticket() const { return {running_, threads_[running_]->turn}; }

void Scheduler::sleep_until(Time until) {
  const Ticket mine = ticket();
  events_.insert(
      {std::max(until, now_), orders_++, [this, mine] { go_on(mine); }, {}, {}, threads_[running_]->priority});
  threads_[running_]->fiber->leave();
}

void Scheduler::step_aside(Duration most) {
  after(up_to(most), [this, mine = ticket()] { go_on(mine); });
  threads_[running_]->fiber->leave();
}

void Scheduler::before_release(const void* who, std::function<void()> publish) {
  threads_[running_]->before_release.insert_or_assign(who, std::move(publish));
}

// With a chooser a process has one thread, which has no other to tell.
void Scheduler::release() {
  if (chooser_ != nullptr) return;
  for (const auto& [who, publish] : std::exchange(threads_[running_]->before_release, {})) publish();
}

// A thread's events have the thread's priority, also when another one woke it.
void Scheduler::wake(Ticket ticket) {
  const std::int64_t priority = std::exchange(priority_, threads_[ticket.thread]->priority);
  after(up_to(kLongestWakeUp), [this, ticket] { go_on(ticket); });
  priority_ = priority;
}

void Scheduler::go_on(Ticket ticket) {
  Thread& thread = *threads_[ticket.thread];
  if (thread.turn != ticket.turn || thread.fiber->finished() || state(thread.process).dead) return;
  if (state(thread.process).paused) {
    thread.held = true;
    return;
  }
  ++thread.turn;
  running_ = ticket.thread;
  touch(place_of_thread(ticket.thread), Chooser::Access::change);
  record(ticket.thread);
  // A step that was put off puts its thread off.
  priority_ = thread.priority = std::min(priority_, thread.priority);
  {
    const Running running(*this);
    thread.fiber->resume();
  }
  if (thread.fiber->finished() && !state(thread.process).dead) --unfinished_;
}

void Scheduler::kill(ProcessId process) {
  if (std::exchange(state(process).dead, true)) return;
  for (const auto& thread : threads_) {
    if (thread->process == process && !thread->fiber->finished()) --unfinished_;
  }
}

void Scheduler::resume(ProcessId process) {
  state(process).paused = false;
  for (std::uint32_t number = 0; number < threads_.size(); ++number) {
    Thread& thread = *threads_[number];
    if (thread.process != process || !std::exchange(thread.held, false)) continue;
    wake({number, thread.turn});
  }
}

bool Scheduler::run(Time limit) {
  if (chooser_ != nullptr) {
    while (unfinished_ != 0 && do_chosen()) {
    }
    return unfinished_ == 0;
  }
  while (is_due(limit) && unfinished_ != 0) do_next();
  return unfinished_ == 0;
}

// Returns whether an event is due, or was put off by its priority.
bool Scheduler::is_due(Time limit) const {
  return (!open_.empty() && now_ <= limit) || (!events_.empty() && events_.begin()->at <= limit);
}

void Scheduler::settle(Time limit) {
  while (!open_.empty()) events_.insert(take(open_.begin()));
  chooser_ = nullptr;
  while (is_due(limit)) do_next();
}

void Scheduler::do_next() {
  if (window_) return execute_by_priority();
  execute(events_.extract(events_.begin()));
}

void Scheduler::execute(Node node) {
  Event& event = node.value();
  now_ = std::max(now_, event.at);
  if (event.ready && !event.ready()) {
    event.at = now_ + up_to(event.retry);
    event.retry = std::min(event.retry * 2, kLongestRetry);
    events_.insert(std::move(node));
    return;
  }
  priority_ = event.priority;
  event.action();
}

// Threads take from one to some dozens of steps while others are put off: a window of 4 to 128 us, where a step takes
// about one.
void Scheduler::choose_by_priorities() {
  window_ = std::chrono::microseconds(4U << random() % 6);
  one_in_demotions_ = 20U << random() % 6;
}

void Scheduler::execute_by_priority() {
  Time first = open_.empty() ? events_.begin()->at : *moments_.begin();
  if (!events_.empty()) first = std::min(first, events_.begin()->at);
  while (!events_.empty() && events_.begin()->at <= first + *window_) {
    open(events_.extract(events_.begin()));
  }
  Node next = take(open_.begin());
  if (one_in(one_in_demotions_)) {
    next.value().priority = --lowest_priority_;
    return open(std::move(next));
  }
  execute(std::move(next));
}

void Scheduler::open(Node event) {
  moments_.insert(event.value().at);
  open_.insert(std::move(event));
}

Scheduler::Node Scheduler::take(OpenEvents::const_iterator event) {
  moments_.erase(moments_.find(event->at));
  return open_.extract(event);
}

// False when the chooser ends the run, or nothing can ever happen again.
bool Scheduler::do_chosen() {
  std::vector<std::uint64_t> ready;
  for (const Event& event : open_) {
    if (!event.ready || event.ready()) ready.push_back(event.order);
  }
  if (ready.empty()) {
    if (events_.empty()) return false;
    chooser_->time_passes();
    do_next();
    return true;
  }
  const auto chosen = chooser_->choose(ready);
  if (!chosen) return false;
  const auto found = std::ranges::find(open_, *chosen, &Event::order);
  take(found).value().action();
  return true;
}

void Scheduler::record(std::uint64_t what) {
  hash_ = mix(hash_ ^ mix(what + static_cast<std::uint64_t>(now_.nanoseconds)));
}

std::string Scheduler::word(std::uint64_t offset, std::uint64_t value) const {
  if (word_name_) return word_name_(offset, value);
  return "offset " + std::to_string(offset) + ": " + hexadecimal(value);
}

Scheduler::ProcessState& Scheduler::state(ProcessId process) {
  if (process >= processes_.size()) processes_.resize(process + 1);
  return processes_[process];
}

}  // namespace farside::sim
