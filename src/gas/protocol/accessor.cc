#include "gas/protocol/accessor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "farside/base/log.h"

#include "base/assert.h"
#include "gas/protocol/pieces.h"
#include "gas/time_limits.h"

namespace farside::gas {

using comm::Status;
using team::Rank;

Accessor::Accessor(PageMemory& memory)
    : memory_(memory),
      channel_(memory.fabric().open_channel()),
      directory_(memory, *channel_),
      holder_(std::make_unique<Holder>(memory, *channel_, Holder::For::puts)),
      known_(memory.layout().cached_places()),
      batch_(std::make_unique<Batch>(*channel_)) {}

// ---- One at a time

Status Accessor::get(const PagePart& part, Deadline deadline) {
  if (const KnownPlace* const known = this->known(part.page)) {
    const bool still_holds = memory_.rules().looks_after_reading || holds(*known);
    const RemoteSpan there{known->region, known->offset + part.offset, part.local.bytes()};
    const Outcome read = channel_->read(part.local, there, deadline);
    if (read == Outcome::done && still_holds && (!memory_.rules().looks_after_reading || holds(*known))) return {};
  }
  begin_get(part);
  return finish(deadline);
}

// Nothing is noted down of a part, since what this thread knows stays as it is: a place that holds when the bytes have
// come has held when they were asked for.
Status Accessor::get(std::span<const PagePart> parts, Deadline deadline) {
  const auto place_that_holds = [this](PageId page) {
    const KnownPlace* const known = this->known(page);
    if (known == nullptr || !memory_.rules().looks_after_reading) return known;
    return holds(*known) ? known : nullptr;
  };
  for (const PagePart& part : parts) {
    const KnownPlace* const known = place_that_holds(part.page);
    if (known == nullptr) continue;
    batch_->read(part.local, {known->region, known->offset + part.offset, part.local.bytes()});
  }
  const Outcome read = batch_->wait(deadline);
  for (const PagePart& part : parts) {
    if (read != Outcome::done || place_that_holds(part.page) == nullptr) begin_get(part);
  }
  return finish(deadline);
}

// The same steps as of many at once, without their lists.
Status Accessor::put(const PagePart& part, Deadline deadline) {
  assert_in_tests(transfers_.empty(), "no transfer is open that the end of a put's hold would leave without one");
  settle_now_and_then();
  const KnownPlace* const known = this->known(part.page);
  if (known == nullptr || !written_.empty() || is_in_doubt(known->place.owner) ||
      !holder_->cover(part.page, known->sampled)) {
    begin_put(part);
    return finish(deadline);
  }
  const Rank owner = known->place.owner;
  const RemoteSpan there{known->region, known->offset + part.offset, part.local.bytes()};
  Outcome outcome = channel_->write(there, part.local, deadline);
  if (outcome == Outcome::done && memory_.rules().flushes_before_letting_go) outcome = channel_->flush(owner, deadline);
  if (outcome == Outcome::done) {
    holder_->let_go();
    return {};
  }
  written_.push_back(owner);
  return give_up(comm::status_with(outcome, owner));
}

Result<std::uint64_t, comm::Status> Accessor::fetch_add(PageId page, std::uint64_t offset, std::uint64_t addend,
                                                        Deadline deadline) {
  return act_on_word(
      page, offset, [&](RemoteWord<AtomicWord> word) { return channel_->fetch_add(word, addend, deadline); }, deadline);
}

Result<std::uint64_t, comm::Status> Accessor::compare_swap(PageId page, std::uint64_t offset, std::uint64_t expected,
                                                           std::uint64_t desired, Deadline deadline) {
  return act_on_word(
      page, offset,
      [&](RemoteWord<AtomicWord> word) { return channel_->compare_swap(word, expected, desired, deadline); }, deadline);
}

template <class Act>
Result<std::uint64_t, comm::Status> Accessor::act_on_word(PageId page, std::uint64_t offset, Act act,
                                                          Deadline deadline) {
  assert_that(transfers_.empty(), "no transfer is open that the end of an atomic's hold would leave without one");
  for (settle_now_and_then();;) {
    if (memory_.fabric().now() >= deadline.at) return {{Outcome::timed_out, {}}, 0};
    const Found found = find(page, deadline);
    if (!found.status.done()) return {found.status, 0};
    const KnownPlace& known = *found.known;
    if (const Status settled = settle_at(known.place.owner, deadline); !settled.done()) return {settled, 0};
    if (const Status earlier = await_puts(deadline); !earlier.done()) return {give_up(earlier), 0};
    if (!holder_->cover(page, known.sampled)) {
      known_[memory_.layout().cached_at(page)] = {};
      continue;
    }
    const Result<std::uint64_t> old = act(known.region->template word<AtomicWord>(known.offset + offset));
    if (old.done()) {
      holder_->let_go();
      return {{}, old.value};
    }
    written_.push_back(known.place.owner);
    return {give_up(comm::status_with(old.status, known.place.owner)), 0};
  }
}

Accessor::Found Accessor::find(PageId page, Deadline deadline) {
  for (;;) {
    if (const KnownPlace* const known = this->known(page); known != nullptr && holds(*known)) return {{}, known};
    if (const Status asked = directory_.register_and_look({&page, 1}, answers_, deadline); !asked.done()) {
      return {asked};
    }
    if (const KnownPlace& known = answers_.front(); !known.place.moving || !memory_.rules().keeps_only_what_rests) {
      keep(known);
      return {{}, this->known(page)};
    }
    if (const Status rests = directory_.await_rest(page, deadline); !rests.done()) return {rests};
  }
}

// ---- Many at once

// Pages that lie one after another are one operation.
void Accessor::begin(const PagePart& part, bool is_put) {
  Run run;
  for_each_piece(part, memory_.layout().shape().page_bytes,
                 [&](PageId page, std::uint64_t offset, std::uint64_t at, std::uint64_t bytes) {
                   Transfer& transfer = transfers_.emplace_back(page, offset, part.local.piece(at, bytes), is_put);
                   const KnownPlace* const known = this->known(page);
                   if (known == nullptr || !holds(*known) || !claim(transfer, *known)) return;
                   const std::uint64_t there = known->offset + offset;
                   const bool goes_on =
                       run.region == known->region && run.there + run.bytes == there && run.here + run.bytes == at;
                   if (!goes_on) {
                     post(run, part.local, is_put);
                     run = {known->region, there, at, 0};
                   }
                   run.bytes += bytes;
                 });
  post(run, part.local, is_put);
}

bool Accessor::claim(Transfer& transfer, const KnownPlace& known) {
  if (transfer.is_put) {
    if (is_in_doubt(known.place.owner)) return false;
    if (!holder_->cover(transfer.part.page, known.sampled)) return false;
    if (!std::ranges::count(written_, known.place.owner)) written_.push_back(known.place.owner);
  }
  transfer.posted = true;
  transfer.sampled = known.sampled;
  transfer.owner = known.place.owner;
  return true;
}

void Accessor::post(const Run& run, LocalSpan local, bool is_put) {
  if (run.bytes == 0) return;
  const LocalSpan here = local.piece(run.here, run.bytes);
  const RemoteSpan there{run.region, run.there, run.bytes};
  if (is_put) {
    batch_->write(there, here);
  } else {
    batch_->read(here, there);
  }
}

Status Accessor::finish(Deadline deadline) {
  for (;;) {
    if (const Status status = await_posted(deadline); !status.done()) return give_up(status);
    if (transfers_.empty()) return {};
    if (memory_.fabric().now() >= deadline.at) return give_up({Outcome::timed_out, {}});
    if (const Status status = post_rest(deadline); !status.done()) return give_up(status);
  }
}

Status Accessor::await_posted(Deadline deadline) {
  const Outcome outcome = batch_->wait(deadline);
  if (outcome == Outcome::timed_out) return {outcome, {}};
  if (const Status flushed = await_puts(deadline); !flushed.done()) return flushed;
  // The batch does not say which of the gets has failed, so all are done again, unless that is of no use.
  const Status status = outcome == Outcome::done ? Status{} : judge_failure(outcome);
  if (!status.done()) return status;
  std::erase_if(transfers_, [&](Transfer& transfer) {
    if (!transfer.posted) return false;
    transfer.posted = false;
    if (transfer.is_put) return true;
    if (!memory_.rules().looks_after_reading) return outcome == Outcome::done;
    return outcome == Outcome::done && memory_.own_revoked(transfer.part.page).load() == transfer.sampled;
  });
  return {};
}

// All that was put is visible, or its owner is gone for good.
Status Accessor::await_puts(Deadline deadline) {
  Status all;
  if (memory_.rules().flushes_before_letting_go) {
    std::erase_if(written_, [&](Rank owner) {
      const Outcome flushed = channel_->flush(owner, deadline);
      if (flushed != Outcome::done && all.done()) all = comm::status_with(flushed, owner);
      return flushed == Outcome::done;
    });
  } else {
    written_.clear();
  }
  if (all.done()) holder_->let_go();
  return all;
}

// An owner that is lost does not matter to gets from a page which has left it before.
Status Accessor::judge_failure(Outcome outcome) {
  for (const Transfer& transfer : transfers_) {
    if (!transfer.posted || transfer.is_put || !memory_.fabric().lost(transfer.owner)) continue;
    if (memory_.own_revoked(transfer.part.page).load() == transfer.sampled)
      return comm::status_with(outcome, transfer.owner);
  }
  const bool is_stale = std::ranges::any_of(transfers_, [&](const Transfer& transfer) {
    return transfer.posted && !transfer.is_put && memory_.own_revoked(transfer.part.page).load() != transfer.sampled;
  });
  return is_stale ? Status{} : Status{outcome, {}};
}

// Whatever was put may still land. Where no other hold is free it stays under this one: `written_` has its owner, so
// that the next put awaits it first.
Status Accessor::give_up(Status status) {
  (void)batch_->wait(memory_.fabric().in({}));  // no local memory is touched once this has returned
  transfers_.clear();
  holder_->give_up();
  const Deadline deadline = memory_.fabric().in(gas::time_limits::kSettle);
  const bool awaits = memory_.rules().awaits_what_was_given_up;
  std::erase_if(written_, [&](Rank owner) { return !awaits || is_over(owner, deadline); });
  if (written_.empty()) {
    holder_->let_go();
  } else {
    assert_that(std::ranges::none_of(written_, [this](Rank owner) { return is_in_doubt(owner); }),
                "for each owner there is one hold of puts that were given up");
    auto next = std::make_unique<Holder>(memory_, *channel_, Holder::For::puts);
    in_doubt_.push_back({std::exchange(holder_, std::move(next)), std::exchange(written_, {})});
    settling_backoff_.reset();
    next_settling_ = memory_.fabric().now() + settling_backoff_.next();
  }
  return status;
}

void Accessor::cancel() noexcept {
  const auto logged = [](const auto& step) {
    try {
      (void)step();
    } catch (const std::exception& error) {
      log::warn(std::string("global pages: ") + error.what());
    }
  };
  // Whatever the first reports, after the second nothing touches local memory. Where it finds no hold for the puts that
  // were given up, they keep the one they have.
  logged([this] { return await_posted(memory_.fabric().in(gas::time_limits::kCancel)); });
  logged([this] { return give_up({}); });
}

// ---- Puts that were given up

// The first flush may report what was lost. One that is done says that nothing from before lands any more.
bool Accessor::is_over(Rank owner, Deadline deadline) {
  for (Pauses pauses(memory_.fabric()); !memory_.fabric().lost(owner);) {
    if (channel_->flush(owner, deadline) == Outcome::done) return true;
    if (!pauses.sleep(deadline)) return memory_.fabric().lost(owner);
  }
  return true;
}

bool Accessor::is_in_doubt(Rank owner) const {
  return std::ranges::any_of(in_doubt_,
                             [owner](const PutInDoubt& put) { return std::ranges::count(put.owners, owner); });
}

Status Accessor::settle_at(Rank owner, Deadline deadline) {
  if (!is_in_doubt(owner)) return {};
  if (!is_over(owner, deadline)) return {Outcome::timed_out, {}};
  std::erase_if(in_doubt_, [owner](PutInDoubt& put) {
    std::erase(put.owners, owner);
    if (put.owners.empty()) put.holder->let_go();
    return put.owners.empty();
  });
  return {};
}

void Accessor::settle(Deadline deadline) {
  std::set<Rank> owners;
  for (const PutInDoubt& put : in_doubt_) owners.insert(put.owners.begin(), put.owners.end());
  for (const Rank owner : owners) (void)settle_at(owner, deadline);
}

void Accessor::settle_now_and_then() {
  if (in_doubt_.empty() || memory_.fabric().now() < next_settling_) return;
  settle(memory_.fabric().in(gas::time_limits::kResettle));
  next_settling_ = memory_.fabric().now() + settling_backoff_.next();
}

void Accessor::part(Deadline deadline) noexcept {
  try {
    std::erase_if(written_, [&](Rank owner) { return is_over(owner, deadline); });
    settle(deadline);
  } catch (const std::exception& error) {
    log::warn(std::string("global pages: ") + error.what());
  }
  if (written_.empty()) {
    holder_->let_go();
  } else {
    holder_->abandon();
  }
  for (const PutInDoubt& put : in_doubt_) put.holder->abandon();
}

// ----

Status Accessor::post_rest(Deadline deadline) {
  asked_.clear();
  for (const Transfer& transfer : transfers_) {
    if (!transfer.posted) asked_.push_back(transfer.part.page);
  }
  std::ranges::sort(asked_);
  asked_.erase(std::unique(asked_.begin(), asked_.end()), asked_.end());
  if (const Status asked = directory_.register_and_look(asked_, answers_, deadline); !asked.done()) return asked;
  assert_that(answers_.size() == asked_.size(), "each page that was asked for has an answer");

  for (const KnownPlace& answer : answers_) {
    if (!answer.place.moving || !memory_.rules().keeps_only_what_rests) keep(answer);
  }
  for (const Transfer& transfer : transfers_) {
    if (transfer.posted || !transfer.is_put || in_doubt_.empty()) continue;
    const KnownPlace& answer = *std::ranges::lower_bound(answers_, transfer.part.page, {}, &KnownPlace::page);
    if (const Status settled = settle_at(answer.place.owner, deadline); !settled.done()) return settled;
  }
  std::optional<PageId> awaited;
  for (Transfer& transfer : transfers_) {
    if (transfer.posted) continue;
    const KnownPlace& answer = *std::ranges::lower_bound(answers_, transfer.part.page, {}, &KnownPlace::page);
    if (!answer.place.moving || !memory_.rules().keeps_only_what_rests) {
      const PagePart& part = transfer.part;
      const Run run{answer.region, answer.offset + part.offset, 0, part.local.bytes()};
      if (claim(transfer, answer)) post(run, part.local, transfer.is_put);
    } else if (transfer.is_put || (answer.place.closed && memory_.rules().closes_when_passing)) {
      awaited = transfer.part.page;
    } else if (const Status got = get_while_moving(transfer, answer.place, deadline); !got.done()) {
      return got;
    }
  }
  std::erase_if(transfers_, [](const Transfer& transfer) { return transfer.part.page == KnownPlace::kNone; });
  const bool is_idle = std::ranges::none_of(transfers_, &Transfer::posted);
  return awaited && is_idle ? directory_.await_rest(*awaited, deadline) : Status{};
}

// No rank changes a page that is being moved, so the bytes at its old place are current, if the same rank was still
// moving it when they had come. (A get whose page is done with gets the page kNone.)
Status Accessor::get_while_moving(Transfer& transfer, const Location& place, Deadline deadline) {
  PagePart& part = transfer.part;
  const Outcome read = channel_->read(part.local, memory_.in_slot(place, part.offset, part.local.bytes()), deadline);
  Location after = place;
  if (memory_.rules().looks_again_while_moving) {
    if (const Status looked = directory_.look({&part.page, 1}, {&after, 1}, deadline); !looked.done()) return looked;
  }
  if (after.word() != place.word()) return {};
  if (read == Outcome::done) part.page = KnownPlace::kNone;
  return comm::status_with(read, place.owner);
}

}  // namespace farside::gas
