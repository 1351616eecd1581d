#include "far/protocol/holds.h"

#include <string>

#include "farside/base/error.h"

namespace farside::far {

namespace {

constexpr std::uint64_t kAlone = 1ULL << 63U;
constexpr std::uint64_t kOneUnfinished = 1ULL << 32U;
constexpr std::uint64_t kSharers = kOneUnfinished - 1;
constexpr Duration kLoopback = std::chrono::seconds(30);

bool is_alone(std::uint64_t word) { return (word & kAlone) != 0; }
bool is_shared(std::uint64_t word) { return (word & kSharers) != 0; }
bool has_unfinished(std::uint64_t word) { return (word & ~kAlone) >= kOneUnfinished; }

constexpr std::uint64_t minus(std::uint64_t number) { return ~number + 1; }  // added, it subtracts

std::uint64_t value_of(const Fetched& fetched) {
  if (fetched.done()) return fetched.value;
  throw Error({"count who uses far memory in", "this process",
               "its own memory does not answer: " + std::string(to_string(fetched.outcome)), "see farside doctor"});
}

}  // namespace

Holds::Holds(Fabric& fabric, PeerId self, std::uint64_t count)
    : fabric_(fabric),
      words_(fabric.create_region("far holds", count * sizeof(AtomicWord))),
      own_(fabric.attach(self, words_->handle())) {}

Holds::Held Holds::share(Channel& channel, std::uint64_t slab, Deadline deadline) const {
  for (;;) {
    const std::uint64_t before = add(channel, slab, 1);
    if (!is_alone(before)) return {Outcome::done, has_unfinished(before)};
    unshare(channel, slab);
    const Outcome waited = channel.wait_until(
        *words_, words_->word<AtomicWord>(8 * slab), [](std::uint64_t word) { return !is_alone(word); }, deadline);
    if (waited != Outcome::done) return {waited};
  }
}

void Holds::unshare(Channel& channel, std::uint64_t slab) const { stop_sharing(channel, slab, minus(1)); }

void Holds::leave_unfinished(Channel& channel, std::uint64_t slab) const {
  stop_sharing(channel, slab, kOneUnfinished - 1);
}

// The last sharer wakes whoever waits to be alone.
void Holds::stop_sharing(Channel& channel, std::uint64_t slab, std::uint64_t addend) const {
  const std::uint64_t before = add(channel, slab, addend);
  if (is_alone(before) && !is_shared(before - 1)) add_and_wake(channel, slab, 0);
}

void Holds::finish(Channel& channel, std::uint64_t slab) const { add_and_wake(channel, slab, minus(kOneUnfinished)); }

Outcome Holds::wait_finished(Channel& channel, std::uint64_t slab, Deadline deadline) const {
  return channel.wait_until(
      *words_, words_->word<AtomicWord>(8 * slab), [](std::uint64_t word) { return !has_unfinished(word); }, deadline);
}

Holds::Held Holds::be_alone(Channel& channel, std::uint64_t slab, Deadline deadline) const {
  const auto here = words_->word<AtomicWord>(8 * slab);
  for (;;) {
    const std::uint64_t seen = here.load();
    if (is_alone(seen)) {
      const Outcome waited = channel.wait_until(
          *words_, here, [](std::uint64_t word) { return !is_alone(word); }, deadline);
      if (waited != Outcome::done) return {waited};
      continue;
    }
    const auto there = own_->word<AtomicWord>(8 * slab);
    if (value_of(channel.compare_swap(there, seen, seen | kAlone, fabric_.in(kLoopback))) == seen) break;
  }
  const Outcome waited = channel.wait_until(
      *words_, here, [](std::uint64_t word) { return !is_shared(word); }, deadline);
  // What sharers did before is ordered by the word that they changed, and changing it.
  const bool unfinished = has_unfinished(add(channel, slab, 0));
  if (waited != Outcome::done || unfinished) end_alone(channel, slab);
  return {waited, unfinished};
}

void Holds::end_alone(Channel& channel, std::uint64_t slab) const { add_and_wake(channel, slab, kAlone); }

// What was there before.
std::uint64_t Holds::add(Channel& channel, std::uint64_t slab, std::uint64_t addend) const {
  return value_of(channel.fetch_add(own_->word<AtomicWord>(8 * slab), addend, fabric_.in(kLoopback)));
}

void Holds::add_and_wake(Channel& channel, std::uint64_t slab, std::uint64_t addend) const {
  (void)value_of(channel.add_signal(own_->word<AtomicWord>(8 * slab), addend, fabric_.in(kLoopback)));
}

}  // namespace farside::far
