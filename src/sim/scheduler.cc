#include "sim/scheduler.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "farside/base/mix.h"

namespace farside::sim {

namespace {

// A thread that something woke does not go on at the very same moment.
constexpr Duration kLongestWakeUp = std::chrono::nanoseconds(500);

// What is held up is looked at again, less and less often.
constexpr Duration kFirstRetry = std::chrono::microseconds(2);
constexpr Duration kLongestRetry = std::chrono::milliseconds(1);

}  // namespace

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
  Event event{now_ + delay, orders_++, std::move(action), std::move(ready), kFirstRetry};
  if (chooser_ == nullptr) return events_.push(std::move(event));
  chooser_->made(event.order);
  open_.push_back(std::move(event));
}

void Scheduler::spawn(ProcessId process, std::function<void()> body) {
  const auto number = static_cast<std::uint32_t>(threads_.size());
  auto thread = std::make_unique<Thread>();
  thread->process = process;
  thread->fiber = std::make_unique<Fiber>(std::move(body));
  thread->random = number;
  threads_.push_back(std::move(thread));
  ++unfinished_;
  after(up_to(kLongestWakeUp), [this, number] { go_on({number, 0}); });
}

Scheduler::Ticket Scheduler::ticket() const { return {running_, threads_[running_]->turn}; }

void Scheduler::sleep_until(Time until) {
  const Ticket mine = ticket();
  events_.push({std::max(until, now_), orders_++, [this, mine] { go_on(mine); }, {}, {}});
  threads_[running_]->fiber->leave();
}

void Scheduler::wake(Ticket ticket) {
  after(up_to(kLongestWakeUp), [this, ticket] { go_on(ticket); });
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
  record(ticket.thread, {});
  thread.fiber->resume();
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
  while (!events_.empty() && events_.top().at <= limit && unfinished_ != 0) do_next();
  return unfinished_ == 0;
}

void Scheduler::settle(Time limit) {
  while (!open_.empty()) {
    events_.push(std::move(open_.back()));
    open_.pop_back();
  }
  chooser_ = nullptr;
  while (!events_.empty() && events_.top().at <= limit) do_next();
}

void Scheduler::do_next() {
  // The action may put in events, so it must be out of the queue before it runs.
  Event event = std::move(const_cast<Event&>(events_.top()));
  events_.pop();
  now_ = std::max(now_, event.at);
  if (event.ready && !event.ready()) {
    event.at = now_ + up_to(event.retry);
    event.retry = std::min(event.retry * 2, kLongestRetry);
    return events_.push(std::move(event));
  }
  event.action();
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
  const Event event = std::move(*found);
  open_.erase(found);
  event.action();
  return true;
}

void Scheduler::record(std::uint64_t what, const std::function<std::string()>& text) {
  hash_ = mix(hash_ ^ mix(what + static_cast<std::uint64_t>(now_.nanoseconds)));
  if (keep_steps_ && text) steps_.push_back(std::to_string(now_.nanoseconds) + " ns: " + text());
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
