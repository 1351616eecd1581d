#include "far/protocol/holds.h"

#include <algorithm>

#include "base/assert.h"
#include "far/time_limits.h"

namespace farside::far {

Holds::Holds(Fabric& fabric, PeerId self, std::uint64_t count)
    : fabric_(fabric),
      bells_(fabric.create_region("far holds", count * sizeof(AtomicWord))),
      own_(fabric.attach(self, bells_->handle())),
      slabs_(std::make_unique<Slab[]>(count)) {}

Holds::Held Holds::share(Channel& channel, std::uint64_t slab, Deadline deadline) const {
  bool unfinished = false;
  const auto try_it = [&unfinished](Slab& at) {
    at.mutex.assume_held();
    if (at.alone) return false;
    ++at.sharers;
    unfinished = at.unfinished != 0;
    return true;
  };
  const Outcome outcome = wait_until(channel, slab, try_it, deadline);
  return {outcome, unfinished};
}

void Holds::unshare(Channel& channel, std::uint64_t slab) const {
  change(channel, slab, [](Slab& at) {
    at.mutex.assume_held();
    assert_that(at.sharers != 0, "a slab that a thread lets go of is shared");
    --at.sharers;
  });
}

void Holds::leave_unfinished(Channel& channel, std::uint64_t slab) const {
  change(channel, slab, [](Slab& at) {
    at.mutex.assume_held();
    assert_that(at.sharers != 0 || at.alone, "a slab with a write that is given up is held");
    // At one moment: the next caller must know. While a caller shares it, no other thread is alone.
    if (at.sharers == 0) {
      at.alone = false;
    } else {
      --at.sharers;
    }
    ++at.unfinished;
  });
}

void Holds::finish(Channel& channel, std::uint64_t slab) const {
  change(channel, slab, [](Slab& at) {
    at.mutex.assume_held();
    assert_that(at.unfinished != 0, "a write that is over was left unfinished before");
    --at.unfinished;
  });
}

Outcome Holds::wait_finished(Channel& channel, std::uint64_t slab, Deadline deadline) const {
  return wait_until(
      channel, slab,
      [](const Slab& at) {
        at.mutex.assume_held();
        return at.unfinished == 0;
      },
      deadline);
}

Holds::Held Holds::be_alone(Channel& channel, std::uint64_t slab, Deadline deadline) const {
  const auto begin = [](Slab& at) {
    at.mutex.assume_held();
    return !at.alone && (at.alone = true);
  };
  if (const Outcome begun = wait_until(channel, slab, begin, deadline); begun != Outcome::done) return {begun};
  bool unfinished = false;
  const auto is_unshared = [&unfinished](const Slab& at) {
    at.mutex.assume_held();
    unfinished = at.unfinished != 0;
    return at.sharers == 0;
  };
  const Outcome waited = wait_until(channel, slab, is_unshared, deadline);
  if (waited != Outcome::done || unfinished) end_alone(channel, slab);
  return {waited, unfinished};
}

void Holds::end_alone(Channel& channel, std::uint64_t slab) const {
  change(channel, slab, [](Slab& at) {
    at.mutex.assume_held();
    assert_that(at.alone, "a thread that ends to be alone was alone");
    at.alone = false;
  });
}

bool Holds::is_alone(std::uint64_t slab) const {
  Slab& at = slabs_[slab];
  const MutexLock lock(at.mutex);
  return at.alone && at.sharers == 0;
}

// `try_it` is called under the slab's mutex until it says that it is done.
template <class Act>
Outcome Holds::wait_until(Channel& channel, std::uint64_t slab, Act try_it, Deadline deadline) const {
  Slab& at = slabs_[slab];
  const auto bell = bells_->word<AtomicWord>(sizeof(AtomicWord) * slab);
  for (;;) {
    const std::uint64_t rung = bell.load();  // before the look: what changes later rings later
    {
      const MutexLock lock(at.mutex);
      if (try_it(at)) return Outcome::done;
      ++at.sleepers;
    }
    const Deadline look{std::min(deadline.at, fabric_.in(time_limits::kLockLook).at)};
    const Outcome waited = channel.wait_until(
        *bells_, bell, [rung](std::uint64_t now) { return now != rung; }, look);
    const MutexLock lock(at.mutex);
    --at.sleepers;
    if (waited != Outcome::done && fabric_.now() >= deadline.at) return try_it(at) ? Outcome::done : waited;
  }
}

template <class Change>
void Holds::change(Channel& channel, std::uint64_t slab, Change change) const {
  Slab& at = slabs_[slab];
  {
    const MutexLock lock(at.mutex);
    change(at);
    if (at.sleepers == 0) return;
  }
  // When that fails sleepers look for themselves.
  (void)channel.add_signal(own_->word<AtomicWord>(sizeof(AtomicWord) * slab), 1, fabric_.in(time_limits::kRing));
}

}  // namespace farside::far
