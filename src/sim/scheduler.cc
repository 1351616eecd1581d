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
constexpr Duration kMaxWakeUp = std::chrono::nanoseconds(500);

// Events that are held up are looked at again, with exponential backoff.
constexpr Duration kFirstRetry = std::chrono::microseconds(2);
constexpr Duration kMaxRetry = std::chrono::milliseconds(1);

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

Scheduler::Event& Scheduler::add(Event event) {
  if (free_.empty()) return storage_.emplace_back(std::move(event));
  Event& place = *free_.back();
  free_.pop_back();
  return place = std::move(event);
}

// Its place is free for the events that it makes.
void Scheduler::run_and_drop(Event& event) {
  const std::function<void()> action = std::move(event.action);
  event.ready = {};
  free_.push_back(&event);
  action();
}

void Scheduler::put_in(Event& event) {
  events_.push_back({event.at, event.order, &event});
  std::ranges::push_heap(events_, Later{});
}

Scheduler::Event& Scheduler::take_earliest() {
  std::ranges::pop_heap(events_, Later{});
  Event& event = *events_.back().event;
  events_.pop_back();
  return event;
}

void Scheduler::open(Event& event) {
  event.open = true;
  open_.push_back({event.priority, {event.at, event.order, &event}});
  std::ranges::push_heap(open_, LessUrgent{});
}

Scheduler::Event& Scheduler::take_most_urgent() {
  std::ranges::pop_heap(open_, LessUrgent{});
  Event& event = *open_.back().moment.event;
  open_.pop_back();
  event.open = false;
  return event;
}

// An event that left open_ leaves its moment behind.
std::optional<Time> Scheduler::first_open_moment() {
  while (!open_moments_.empty()) {
    const Moment& first = open_moments_.front();
    if (first.event->open && first.event->order == first.order && first.event->at == first.at) return first.at;
    std::ranges::pop_heap(open_moments_, Later{});
    open_moments_.pop_back();
  }
  return std::nullopt;
}

void Scheduler::after(Duration delay, std::function<void()> action, std::function<bool()> ready, Group* group) {
  Event& event = add({now_ + delay, orders_++, std::move(action), std::move(ready), group, kFirstRetry, priority_});
  if (chooser_ == nullptr) return put_in(event);
  chooser_->made(event.order);
  open(event);
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
  put_in(
      add({std::max(until, now_), orders_++, [this, mine] { go_on(mine); }, {}, {}, {}, threads_[running_]->priority}));
  threads_[running_]->fiber->leave();
}

void Scheduler::step_aside(Duration most) {
  after(up_to(most), [this, mine = ticket()] { go_on(mine); });
  threads_[running_]->fiber->leave();
}

void Scheduler::before_release(const void* owner, std::function<void()> publish) {
  threads_[running_]->before_release.insert_or_assign(owner, std::move(publish));
}

// With a chooser a process has one thread, which has no other to tell.
void Scheduler::release() {
  if (chooser_ != nullptr) return;
  for (const auto& [owner, publish] : std::exchange(threads_[running_]->before_release, {})) publish();
}

// A thread's events have the thread's priority, also when another one woke it.
void Scheduler::wake(Ticket ticket) {
  const std::int64_t priority = std::exchange(priority_, threads_[ticket.thread]->priority);
  after(up_to(kMaxWakeUp), [this, ticket] { go_on(ticket); });
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
  return (!open_.empty() && now_ <= limit) || (!events_.empty() && events_.front().at <= limit);
}

void Scheduler::settle(Time limit) {
  while (!open_.empty()) put_in(take_most_urgent());
  chooser_ = nullptr;
  while (is_due(limit)) do_next();
}

void Scheduler::do_next() {
  if (window_) return execute_by_priority();
  execute(take_earliest());
}

void Scheduler::execute(Event& event) {
  now_ = std::max(now_, event.at);
  if (event.ready && !event.ready()) return hold_up(event);
  if (event.polls) release_group(event);
  priority_ = event.priority;
  run_and_drop(event);
}

void Scheduler::hold_up(Event& event) {
  if (event.group != nullptr && !event.polls) {
    if (std::exchange(event.group->polled_, true)) return event.group->held_.push_back(&event);
    event.polls = true;
  }
  event.at = now_ + up_to(event.retry);
  event.retry = std::min(event.retry * 2, kMaxRetry);
  put_in(event);
}

// They go on one after the other, within the time that they would have taken to find out by themselves.
void Scheduler::release_group(Event& polling) {
  polling.group->polled_ = false;
  for (Event* const event : std::exchange(polling.group->held_, {})) {
    event->at = now_ + up_to(polling.retry);
    put_in(*event);
  }
}

// Threads take from one to some dozens of steps while others are put off: a window of 4 to 128 us, where a step takes
// about one.
void Scheduler::choose_by_priorities() {
  window_ = std::chrono::microseconds(4U << random() % 6);
  one_in_demotions_ = 20U << random() % 6;
}

void Scheduler::execute_by_priority() {
  std::optional<Time> first = first_open_moment();
  if (!events_.empty()) first = std::min(first.value_or(events_.front().at), events_.front().at);
  while (!events_.empty() && events_.front().at <= *first + *window_) {
    open_moments_.push_back(events_.front());
    std::ranges::push_heap(open_moments_, Later{});
    open(take_earliest());
  }
  Event& next = take_most_urgent();
  if (!one_in(one_in_demotions_)) return execute(next);
  next.priority = --lowest_priority_;
  open(next);
}

// False when the chooser ends the run, or nothing can ever happen again.
bool Scheduler::do_chosen() {
  std::vector<Urgency> by_urgency = open_;
  std::ranges::sort(by_urgency, [](const Urgency& a, const Urgency& b) { return LessUrgent{}(b, a); });
  std::vector<std::uint64_t> ready;
  for (const auto& [priority, moment] : by_urgency) {
    if (!moment.event->ready || moment.event->ready()) ready.push_back(moment.order);
  }
  if (ready.empty()) {
    if (events_.empty()) return false;
    chooser_->time_passes();
    do_next();
    return true;
  }
  const auto chosen = chooser_->choose(ready);
  if (!chosen) return false;
  const auto found = std::ranges::find(open_, *chosen, [](const Urgency& open) { return open.moment.order; });
  Event& event = *found->moment.event;
  open_.erase(found);
  std::ranges::make_heap(open_, LessUrgent{});
  run_and_drop(event);
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
