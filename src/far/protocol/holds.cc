#include "far/protocol/holds.h"

namespace farside::far {

namespace {

constexpr std::uint64_t kAlone = 1ULL << 63U;
constexpr std::uint64_t kOneLess = ~0ULL;  // added, it subtracts 1
constexpr Duration kLoopback = std::chrono::seconds(30);

bool is_alone(std::uint64_t word) { return (word & kAlone) != 0; }

}  // namespace

Holds::Holds(Fabric& fabric, PeerId self, std::uint64_t count)
    : fabric_(fabric),
      words_(fabric.create_region("far holds", count * sizeof(AtomicWord))),
      own_(fabric.attach(self, words_->handle())) {}

Outcome Holds::share(Channel& channel, std::uint64_t slab, Deadline deadline) const {
  while (is_alone(add(channel, slab, 1))) {
    unshare(channel, slab);
    const Outcome waited = channel.wait_until(
        *words_, words_->word<AtomicWord>(8 * slab), [](std::uint64_t word) { return !is_alone(word); }, deadline);
    if (waited != Outcome::done) return waited;
  }
  return Outcome::done;
}

// The last sharer wakes whoever waits to be alone.
void Holds::unshare(Channel& channel, std::uint64_t slab) const {
  if (add(channel, slab, kOneLess) == (kAlone | 1)) add_and_wake(channel, slab, 0);
}

Outcome Holds::be_alone(Channel& channel, std::uint64_t slab, Deadline deadline) const {
  const auto here = words_->word<AtomicWord>(8 * slab);
  for (;;) {
    const std::uint64_t seen = here.load();
    if (is_alone(seen)) {
      const Outcome waited = channel.wait_until(
          *words_, here, [](std::uint64_t word) { return !is_alone(word); }, deadline);
      if (waited != Outcome::done) return waited;
      continue;
    }
    const auto there = own_->word<AtomicWord>(8 * slab);
    const Fetched old = channel.compare_swap(there, seen, seen | kAlone, fabric_.in(kLoopback));
    if (!old.done()) return old.outcome;
    if (old.value == seen) break;
  }
  const Outcome waited = channel.wait_until(
      *words_, here, [](std::uint64_t word) { return word == kAlone; }, deadline);
  if (waited != Outcome::done) {
    end_alone(channel, slab);
    return waited;
  }
  (void)add(channel, slab, 0);  // what sharers did before is ordered by the word that they changed, and changing it
  return Outcome::done;
}

void Holds::end_alone(Channel& channel, std::uint64_t slab) const { add_and_wake(channel, slab, kAlone); }

// What was there before.
std::uint64_t Holds::add(Channel& channel, std::uint64_t slab, std::uint64_t addend) const {
  return channel.fetch_add(own_->word<AtomicWord>(8 * slab), addend, fabric_.in(kLoopback)).value;
}

void Holds::add_and_wake(Channel& channel, std::uint64_t slab, std::uint64_t addend) const {
  (void)channel.add_signal(own_->word<AtomicWord>(8 * slab), addend, fabric_.in(kLoopback));
}

}  // namespace farside::far
