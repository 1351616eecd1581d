#include "sim/flight.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace farside::sim {

Flight::Flight(Wires& wires, ProcessId poster, const Operation& operation, std::shared_ptr<SimMemory> target,
               Completion& completion, std::shared_ptr<Waiter> waiter)
    : wires_(wires),
      poster_(poster),
      operation_(operation),
      target_(std::move(target)),
      completion_(&completion),
      waiter_(std::move(waiter)) {
  if (is_write()) source_.assign(operation.local, operation.local + operation.bytes);
  ++completion.pending;
}

void Flight::begin(std::vector<std::shared_ptr<Flight>> predecessors) {
  predecessors_ = std::move(predecessors);
  switch (operation_.kind) {
    case Operation::Kind::read:
    case Operation::Kind::write: return begin_transfer();
    default: return attempt(&Flight::begin_atomic, 0);
  }
}

void Flight::begin_transfer() {
  const std::uint64_t grain = wires_.network().grain_bytes;
  const std::uint64_t first = operation_.offset / grain * grain;
  std::uint64_t steps = 0;
  const auto step = [&](std::uint64_t at) {
    ++steps;
    attempt(&Flight::transfer, at);
  };
  for (std::uint64_t at = first; at < operation_.offset + operation_.bytes; at += grain) {
    step(at);
    if (is_write() && wires_.network().stores_twice && wires_.scheduler().one_in(8)) step(at);
  }
  steps_left_ = steps;
  if (steps == 0) {
    steps_left_ = 1;
    step_is_done();
  } else if (is_write() && wires_.network().completes_before_visible) {
    later(wires_.scheduler().up_to(wires_.network().latency), &Flight::complete_early, 0);
  }
}

// The piece of the transfer that lies in the grain at `at`.
void Flight::transfer(std::uint64_t at) {
  const std::uint64_t begin = std::max(at, operation_.offset);
  const std::uint64_t end = std::min(at + wires_.network().grain_bytes, operation_.offset + operation_.bytes);
  std::byte* const remote = target_->base() + begin;
  const std::uint64_t position = begin - operation_.offset;
  if (is_write()) {
    std::memcpy(remote, source_.data() + position, end - begin);
  } else if (completion_ != nullptr && !wires_.scheduler().dead(poster_)) {
    std::memcpy(operation_.local + position, remote, end - begin);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, remote, std::min<std::uint64_t>(8, end - begin));
  record(is_write() ? "WRITE" : "READ", begin, word);
  step_is_done();
}

// To everything but other atomics, an atomic is a load and, a little later, a store.
void Flight::begin_atomic(std::uint64_t /*unused*/) {
  if (!target_->begin_atomic(operation_.offset)) return attempt(&Flight::begin_atomic, 0);
  std::uint64_t old = 0;
  std::memcpy(&old, target_->base() + operation_.offset, 8);
  if (wires_.network().splits_atomics) return later(delay(), &Flight::end_atomic, old);
  end_atomic(old);
}

void Flight::end_atomic(std::uint64_t old) {
  std::uint64_t changed = old;
  switch (operation_.kind) {
    case Operation::Kind::fetch_add: changed = old + operation_.operand; break;
    case Operation::Kind::swap: changed = operation_.operand; break;
    default: changed = old == operation_.expected ? operation_.operand : old;
  }
  if (changed != old) std::memcpy(target_->base() + operation_.offset, &changed, 8);
  target_->end_atomic(operation_.offset);
  record("ATOMIC", operation_.offset, changed);
  if (completion_ != nullptr && !wires_.scheduler().dead(poster_)) std::memcpy(operation_.local, &old, 8);
  step_is_done();
}

void Flight::step_is_done() {
  if (--steps_left_ != 0) return;
  landed_ = true;
  predecessors_.clear();
  tell(Outcome::done);
}

void Flight::complete_early(std::uint64_t /*unused*/) {
  if (!failed_) tell(Outcome::done);
}

void Flight::fail(std::uint64_t /*unused*/) {
  if (over()) return;
  failed_ = true;
  predecessors_.clear();
  tell(Outcome::peer_lost);
}

void Flight::tell(Outcome outcome) {
  if (Completion* const completion = std::exchange(completion_, nullptr)) {
    --completion->pending;
    if (completion->outcome == Outcome::done) completion->outcome = outcome;
  }
  if (waiter_->ticket) wires_.scheduler().wake(*waiter_->ticket);
}

void Flight::abandon() {
  completion_ = nullptr;
  operation_.local = nullptr;
}

void Flight::attempt(Step step, std::uint64_t argument) {
  wires_.scheduler().after(delay(), [self = shared_from_this(), step, argument] {
    if (self->failed_) return;
    if (self->target_is_silent()) {
      return self->later(self->wires_.scheduler().up_to(self->wires_.network().detection), &Flight::fail, 0);
    }
    if (self->must_wait()) return self->attempt(step, argument);
    (self.get()->*step)(argument);
  });
}

void Flight::later(Duration delay, Step step, std::uint64_t argument) {
  wires_.scheduler().after(delay, [self = shared_from_this(), step, argument] { (self.get()->*step)(argument); });
}

bool Flight::must_wait() const {
  const auto over = [](const auto& flight) { return flight->over(); };
  return !wires_.passes(poster_, target_->owner()) || !std::ranges::all_of(predecessors_, over);
}

bool Flight::target_is_silent() const {
  return wires_.scheduler().dead(target_->owner()) && !wires_.network().dead_memory_answers;
}

Duration Flight::delay() {
  Scheduler& scheduler = wires_.scheduler();
  const Network& network = wires_.network();
  const bool late = network.lands_late && scheduler.one_in(100);
  return scheduler.up_to(late ? network.long_latency : network.latency);
}

void Flight::record(const char* what, std::uint64_t offset, std::uint64_t value) const {
  wires_.scheduler().record(offset ^ value, [&] {
    return std::string(what) + " by process " + std::to_string(poster_) + " at process " +
           std::to_string(target_->owner()) + ", offset " + std::to_string(offset) + ": " + std::to_string(value);
  });
}

}  // namespace farside::sim
