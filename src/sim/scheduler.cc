#include "sim/scheduler.h"

#include <algorithm>
#include <utility>

#include "farside/base/mix.h"

namespace farside::sim {

namespace {

// A thread that something woke does not go on at the very same moment.
constexpr Duration kLongestWakeUp = std::chrono::nanoseconds(500);

}  // namespace

std::uint64_t Scheduler::random() { return mix(random_ += kMixStep); }

Duration Scheduler::up_to(Duration most) {
  return Duration(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most.count() + 1)));
}

void Scheduler::after(Duration delay, std::function<void()> action) {
  events_.push({now_ + delay, orders_++, std::move(action)});
}

void Scheduler::spawn(ProcessId process, std::function<void()> body) {
  const auto number = static_cast<std::uint32_t>(threads_.size());
  auto thread = std::make_unique<Thread>();
  thread->process = process;
  thread->fiber = std::make_unique<Fiber>(std::move(body));
  threads_.push_back(std::move(thread));
  ++unfinished_;
  after(up_to(kLongestWakeUp), [this, number] { go_on({number, 0}); });
}

Scheduler::Ticket Scheduler::ticket() const { return {running_, threads_[running_]->turn}; }

void Scheduler::sleep_until(Time until) {
  const Ticket mine = ticket();
  events_.push({std::max(until, now_), orders_++, [this, mine] { go_on(mine); }});
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
  record(ticket.thread, [&] { return "thread " + std::to_string(ticket.thread) + " goes on"; });
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
  while (!events_.empty() && events_.top().at <= limit && unfinished_ != 0) {
    // The action may put in events, so it must be out of the queue before it runs.
    const Event event = std::move(const_cast<Event&>(events_.top()));
    events_.pop();
    now_ = event.at;
    event.action();
  }
  return unfinished_ == 0;
}

void Scheduler::record(std::uint64_t what, const std::function<std::string()>& text) {
  hash_ = mix(hash_ ^ mix(what + static_cast<std::uint64_t>(now_.nanoseconds)));
  if (keep_steps_) steps_.push_back(std::to_string(now_.nanoseconds) + " ns: " + text());
}

Scheduler::ProcessState& Scheduler::state(ProcessId process) {
  if (process >= processes_.size()) processes_.resize(process + 1);
  return processes_[process];
}

}  // namespace farside::sim
