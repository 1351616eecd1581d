#include "sim/flight.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "sim/atomics.h"

namespace farside::sim {

namespace {
constexpr std::uint64_t kBreakOneIn = 300;       // operations, when they come back
constexpr std::uint64_t kAnswerLateOneIn = 100;  // that have taken effect

/// Returns where the word begins that `offset` lies in.
constexpr std::uint64_t word_of(std::uint64_t offset) { return offset / 8 * 8; }
}  // namespace

Flight::Flight(Wires& wires, ProcessId poster, const Operation& operation, std::shared_ptr<SimMemory> target,
               Completion& completion, std::shared_ptr<Waiter> waiter)
    : wires_(wires),
      number_(wires.next_operation()),
      poster_(poster),
      thread_(wires.scheduler().ticket().thread),
      operation_(operation),
      peer_(operation.region->peer()),
      target_(std::move(target)),
      breaks_before_(wires.breaks(poster, target_->owner())),
      link_(waiter->links[peer_]),
      completion_(&completion),
      waiter_(std::move(waiter)),
      poster_pauses_(wires.scheduler().pauses(poster)),
      target_pauses_(wires.scheduler().pauses(target_->owner())) {
  if (FaultCount* const count = wires.fault_count()) {
    counted_ = &count->step(operation.kind, target_->name(), operation.offset);
    ++counted_->posted;
  }
  if (is_write()) source_.assign(operation.local, operation.local + operation.bytes);
  ++completion.pending;
}

void Flight::begin(std::vector<std::shared_ptr<Flight>> predecessors) {
  predecessors_ = std::move(predecessors);
  if (is_atomic()) return attempt(&Flight::begin_atomic, 0);
  begin_transfer();
}

void Flight::begin_transfer() {
  const std::uint64_t grain = grain_bytes();
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

void Flight::transfer(std::uint64_t at) {
  move(at);
  step_is_done();
}

// The piece of the transfer that lies in the grain at `at`.
void Flight::move(std::uint64_t at) {
  const std::uint64_t begin = std::max(at, operation_.offset);
  const std::uint64_t end = std::min(at + grain_bytes(), operation_.offset + operation_.bytes);
  touch_transfer(begin, end);
  std::byte* const remote = target_->base() + begin;
  const std::uint64_t position = begin - operation_.offset;
  if (is_write()) {
    // Until it completes, a WRITE reads its source whenever it likes: what is stored there meanwhile may arrive.
    if (is_awaited()) std::memcpy(source_.data() + position, operation_.local + position, end - begin);
    if (!target_->freed()) std::memcpy(remote, source_.data() + position, end - begin);
  } else if (is_awaited()) {
    std::memcpy(operation_.local + position, remote, end - begin);
  }
  const bool is_part = end - begin < 8;
  for (std::uint64_t word_at = word_of(begin); word_at < end; word_at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, target_->base() + word_at, 8);
    if (is_write()) {
      record(is_part ? "WRITE of a part" : "WRITE", word_at, word);
    } else {
      record(is_part ? "READ of a part" : "READ", word_at, word);
    }
  }
}

// A transfer of at most 8 bytes that travels alone is not split within a word.
std::uint64_t Flight::grain_bytes() const {
  const std::uint64_t grain = wires_.network().grain_bytes;
  return operation_.bytes <= 8 ? std::max<std::uint64_t>(grain, 8) : grain;
}

// To everything but other atomics, an atomic is a load and, a little later, a store.
void Flight::begin_atomic(std::uint64_t /*unused*/) {
  target_->begin_atomic(operation_.offset);
  std::memcpy(&old_, target_->base() + operation_.offset, 8);
  if (!wires_.network().splits_atomics) return end_atomic(0);
  target_->touch(operation_.offset, Chooser::Access::change);  // of what other atomics must wait for
  later(delay(), &Flight::end_atomic, 0);
}

void Flight::end_atomic(std::uint64_t /*unused*/) {
  if (access_taken()) {
    target_->end_atomic(operation_.offset);
    return fail(0);
  }
  const std::uint64_t changed = target_->freed() ? old_ : changed_by(operation_, old_);
  target_->touch_store(operation_.offset, changed);
  if (changed != old_) std::memcpy(target_->base() + operation_.offset, &changed, 8);
  target_->end_atomic(operation_.offset);
  record("ATOMIC", operation_.offset, changed);
  step_is_done();
}

void Flight::step_is_done() {
  touch_thread();
  if (--steps_left_ != 0) return;
  landed_ = true;
  predecessors_.clear();
  if (given_up_) meet(Fault::landed_given_up);
  if (wires_.scheduler().dead(poster_)) meet(Fault::landed_orphaned);
  if (signals_) target_->wake_sleepers();
  Scheduler& scheduler = wires_.scheduler();
  const Network& network = wires_.network();
  const bool is_late = network.answers_late && scheduler.one_in(kAnswerLateOneIn);
  if (is_late && is_awaited()) meet(Fault::answered_late);
  if (answer_passes() && !is_late) return answer();
  scheduler.after(
      is_late ? scheduler.up_to(network.long_latency) : delay(), [self = shared_from_this()] { self->answer(); },
      [this] { return answer_passes() || target_is_silent(); });
}

void Flight::answer() {
  const bool may_be_lost = wires_.network().answers_late && (access_taken() || target_is_silent());
  if (!answer_passes() || (may_be_lost && wires_.scheduler().one_in(2))) {
    return later(wires_.scheduler().up_to(wires_.network().detection), &Flight::lose_answer, 0);
  }
  answered_ = true;
  if (link_ == waiter_->links[peer_] && wires_.network().breaks_links && wires_.scheduler().one_in(kBreakOneIn)) {
    waiter_->broken.insert(peer_);
    if (is_awaited()) meet(Fault::link_broke);
    return tell(Outcome::link_lost);
  }
  if (is_atomic() && is_awaited()) std::memcpy(operation_.local, &old_, 8);
  tell(Outcome::done);
}

void Flight::lose_answer(std::uint64_t /*unused*/) {
  touch_thread();
  failed_ = true;
  if (is_awaited()) meet(Fault::answer_lost);
  tell(Outcome::peer_lost);
}

void Flight::complete_early(std::uint64_t /*unused*/) {
  touch_thread();
  if (!failed_) tell(Outcome::done);
}

void Flight::fail(std::uint64_t /*unused*/) {
  if (landed()) return;
  touch_thread();
  failed_ = true;
  predecessors_.clear();
  tell(Outcome::peer_lost);
}

// Its poster hears that it failed. Some of a WRITE may be there already, and some of the rest still be on its way.
void Flight::break_off(std::uint64_t at) {
  const bool is_first = !failed_;
  if (is_first) draw_remains();
  meet(Fault::link_replaced);
  fail(0);
  if (is_read() || (is_atomic() && !is_first)) return;
  if (at >= lands_to_ && !wires_.scheduler().one_in(lands_one_in_)) return;
  const Network& network = wires_.network();
  const Duration delay =
      wires_.scheduler().up_to(wires_.scheduler().one_in(2) ? network.latency : network.long_latency);
  wires_.scheduler().after(
      delay, [self = shared_from_this(), at] { self->is_atomic() ? self->land_atomic() : self->land(at); },
      [this] { return wires_.passes(poster_, target_->owner()) && !target_->in_atomic(operation_.offset); });
}

// Nothing of it where something is missing of what was fenced from it.
void Flight::draw_remains() {
  if (!wires_.network().lands_late || !std::ranges::all_of(predecessors_, &Flight::landed_)) return;
  Scheduler& scheduler = wires_.scheduler();
  switch (scheduler.random() % 4) {
    case 0: lands_to_ = operation_.offset + scheduler.random() % operation_.bytes; break;  // as a stream brings it
    case 1: lands_one_in_ = 2; break;
    case 2: lands_one_in_ = 1; break;
    default: break;
  }
}

void Flight::land(std::uint64_t at) {
  if (!may_still_land()) return;
  move(at);
  if (signals_) target_->wake_sleepers();
}

void Flight::land_atomic() {
  if (!may_still_land() || target_->freed()) return;
  std::memcpy(&old_, target_->base() + operation_.offset, 8);
  const std::uint64_t changed = changed_by(operation_, old_);
  std::memcpy(target_->base() + operation_.offset, &changed, 8);
  record("ATOMIC", operation_.offset, changed);
  if (signals_) target_->wake_sleepers();
}

// Returns whether a part of an operation whose link ended may still land: not after a flush over the next link.
bool Flight::may_still_land() {
  if (number_ <= waiter_->flushed[peer()] || access_taken() || target_is_silent()) return false;
  meet(Fault::landed_given_up);
  if (wires_.scheduler().dead(poster_)) meet(Fault::landed_orphaned);
  return true;
}

void Flight::tell(Outcome outcome) {
  if (Completion* const completion = std::exchange(completion_, nullptr)) {
    --completion->pending;
    if (completion->outcome == Outcome::done) completion->outcome = outcome;
  }
  if (waiter_->ticket) wires_.scheduler().wake(*waiter_->ticket);
}

void Flight::abandon() {
  given_up_ = true;
  completion_ = nullptr;
  operation_.local = nullptr;
}

void Flight::lose_link(Outcome outcome) {
  if (over()) return;
  lost_link_ = true;
  tell(outcome);
  operation_.local = nullptr;
}

void Flight::meet(Fault fault) {
  const std::uint32_t bit = 1U << static_cast<std::uint32_t>(fault);
  if (counted_ == nullptr || (faults_ & bit) != 0) return;
  faults_ |= bit;
  ++counted_->met.at(static_cast<std::size_t>(fault));
}

void Flight::look_for_faults() {
  if (counted_ == nullptr) return;
  Scheduler& scheduler = wires_.scheduler();
  if (scheduler.pauses(poster_) != poster_pauses_) meet(Fault::poster_stopped);
  if (scheduler.pauses(target_->owner()) != target_pauses_) meet(Fault::target_stopped);
  if (scheduler.dead(poster_)) meet(Fault::poster_died);
  if (scheduler.dead(target_->owner())) meet(Fault::target_died);
  if (access_taken()) meet(Fault::access_taken);
}

void Flight::attempt(Step step, std::uint64_t argument) {
  const auto go_on = [self = shared_from_this(), step, argument] {
    self->look_for_faults();
    if (self->access_taken()) return self->fail(0);
    if (self->is_broken()) return self->break_off(argument);
    if (self->failed_) return;
    if (self->target_is_silent()) {
      return self->later(self->wires_.scheduler().up_to(self->wires_.network().detection), &Flight::fail, 0);
    }
    (self.get()->*step)(argument);
  };
  wires_.scheduler().after(
      delay(), go_on, [this] { return may_go_on(); }, &steps_);
}

void Flight::later(Duration delay, Step step, std::uint64_t argument) {
  wires_.scheduler().after(delay, [self = shared_from_this(), step, argument] { (self.get()->*step)(argument); });
}

bool Flight::may_go_on() {
  if (failed_ || is_broken() || target_is_silent()) return true;
  const bool passes = wires_.passes(poster_, target_->owner()) && (!is_read() || answer_passes());
  if (!passes) {
    meet(Fault::link_cut);
    return false;
  }
  if (wires_.network().needs_calls_for_progress && !waiter_->in_call) return false;
  if (is_atomic() && target_->in_atomic(operation_.offset)) return false;
  while (landed_before_ < predecessors_.size() && predecessors_[landed_before_]->landed()) ++landed_before_;
  return landed_before_ >= predecessors_.size();
}

bool Flight::target_is_silent() const {
  return wires_.scheduler().dead(target_->owner()) && !wires_.network().dead_memory_answers;
}

Duration Flight::delay() {
  Scheduler& scheduler = wires_.scheduler();
  const Network& network = wires_.network();
  const bool late = network.lands_late && scheduler.one_in(poster_ == network.slow_process ? 2 : 100);
  if (late) meet(Fault::late);
  return scheduler.up_to(late ? network.long_latency : network.latency);
}

void Flight::touch_transfer(std::uint64_t begin, std::uint64_t end) const {
  if (!wires_.scheduler().chosen()) return;
  for (std::uint64_t word_at = word_of(begin); word_at < end; word_at += 8) {
    const std::uint64_t at = std::max(word_at, begin);
    const std::uint64_t bytes = std::min(word_at + 8, end) - at;
    std::uint64_t word = 0;
    std::memcpy(&word, target_->base() + word_at, 8);
    if (is_write()) {
      std::memcpy(reinterpret_cast<std::byte*>(&word) + (at - word_at), source_.data() + (at - operation_.offset),
                  bytes);
      target_->touch_store(word_at, word);
      continue;
    }
    target_->touch(word_at, Chooser::Access::look);
    // A READ may land in memory that others read in turn.
    if (is_awaited()) wires_.touch_store(poster_, operation_.local + (at - operation_.offset), word);
  }
}

void Flight::touch_thread() const {
  wires_.scheduler().touch(Scheduler::place_of_thread(thread_), Chooser::Access::look);
}

void Flight::record(const char* what, std::uint64_t offset, std::uint64_t value) const {
  Scheduler& scheduler = wires_.scheduler();
  scheduler.record(offset ^ value, [&] {
    return "operation " + std::to_string(number_) + ": " + what + " by process " + std::to_string(poster_) +
           " at process " + std::to_string(target_->owner()) + ", " + scheduler.word(offset, value);
  });
}

}  // namespace farside::sim
