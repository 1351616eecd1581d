#include "far/protocol/lender.h"

#include "farside/base/error.h"

#include "base/assert.h"
#include "far/time_limits.h"

namespace farside::far {

Lender::Lender(Fabric& fabric, Channel& channel, const Region& table, PeerId self, Backing& backing,
               const LenderSettings& settings, const FarRules& rules)
    : fabric_(fabric),
      channel_(channel),
      table_(table),
      own_(fabric.attach(self, table.handle())),
      backing_(backing),
      settings_(settings),
      rules_(rules) {
  table_.word<ControlWord>(offsetof(TableHead, magic)).store(kTableMagic);
  table_.word<ControlWord>(offsetof(TableHead, slab_bytes)).store(settings.slab_bytes);
  table_.word<ControlWord>(offsetof(TableHead, slabs)).store(settings.slabs);
  channel_.local_fence();
  (void)step();
}

Outcome Lender::end(Holder holder, PeerId peer, Parting parting, Deadline deadline) {
  assert_that(holder != 0, "a client that ends was welcomed");
  if (!rules_.revokes_before_reclaiming) {
    reclaim(holder);
    return Outcome::done;
  }
  if (parting == Parting::left && fabric_.reaches_by_memory(peer)) {
    fabric_.mark_lost(peer);  // its process goes on; to revoke would end it
  } else if (const Outcome revoked = fabric_.revoke(peer, deadline); revoked != Outcome::done) {
    return revoked;
  }
  reclaim(holder);
  return Outcome::done;
}

void Lender::reclaim(Holder holder) {
  for (SlabNumber slab = 0; slab < settings_.slabs; ++slab) {
    // Operations of its holder on the word may land until the holder's access is gone: if the word has changed, it is
    // looked at again.
    SlabWord word = look(slab);
    while (word.holder == holder && !take_in(slab, word)) word = look(slab);
  }
}

bool Lender::step() {
  rung_ = table_.word<AtomicWord>(offsetof(TableHead, bell)).load();
  bool any = false;
  SlabNumber free = 0;
  for (SlabNumber slab = 0; slab < settings_.slabs; ++slab) {
    const SlabWord word = look(slab);
    if (word.state == SlabState::free) ++free;
    if (word.state != SlabState::returned) continue;
    any |= take_in(slab, word);
  }
  return (free < settings_.stock && provide(settings_.stock - free)) || any;
}

void Lender::rest(Deadline deadline) {
  (void)channel_.wait_until(
      table_, table_.word<AtomicWord>(offsetof(TableHead, bell)), [this](std::uint64_t now) { return now != rung_; },
      deadline);
}

// Puts memory behind up to `wanted` bare slabs. Returns whether it did for at least one.
bool Lender::provide(SlabNumber wanted) {
  const auto is_short = table_.word<ControlWord>(offsetof(TableHead, is_short));
  const SlabNumber before = wanted;
  for (SlabNumber slab = 0; slab < settings_.slabs && wanted != 0; ++slab) {
    const SlabWord word = look(slab);
    if (word.state != SlabState::bare) continue;
    if (!backing_.provide(slab)) {
      is_short.store(1);
      return wanted != before;
    }
    if (change(slab, word, {SlabState::free, 0})) --wanted;
  }
  is_short.store(0);
  return wanted != before;
}

// Requires: its former holder does nothing to it any more.
bool Lender::take_in(SlabNumber slab, SlabWord word) {
  if (rules_.zeroes) backing_.take_back(slab);
  channel_.local_fence();
  return change(slab, word, {SlabState::bare, 0});
}

SlabWord Lender::look(SlabNumber slab) const { return SlabWord::of(table_.word<AtomicWord>(word_offset(slab)).load()); }

// False: it is not what it was. What ends with a lost link may have taken effect. The flush sees to it that it does not
// do so later, when the word says the same of another holder. To `to` no other process changes it.
bool Lender::change(SlabNumber slab, SlabWord from, SlabWord to) {
  const auto word = own_->word<AtomicWord>(word_offset(slab));
  const Deadline deadline = fabric_.in(time_limits::kOwnTable);
  bool may_be_done = false;
  for (;;) {
    const Result<std::uint64_t> old = channel_.compare_swap(word, from.bits(), to.bits(), deadline);
    if (old.done()) return old.value == from.bits() || (may_be_done && old.value == to.bits());
    Outcome ended = old.status;
    while (ended == Outcome::link_lost) ended = channel_.flush(own_->peer(), deadline);
    if (ended != Outcome::done) {
      throw Error({"change", "the table of lent memory", "this node's own memory does not answer", "start it again"});
    }
    may_be_done = true;
  }
}

}  // namespace farside::far
