#include "fabric/host/host_channel.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <sched.h>

#include "base/assert.h"
#include "base/backoff.h"
#include "fabric/bulk_copy.h"
#include "fabric/clock.h"
#include "fabric/time_limits.h"

namespace farside {

namespace {

// A sleeper is woken by write_signal and by mark_lost. It also looks for itself, with exponential backoff, for a change
// without a wake-up: a plain store, an atomic, a write that came through a NIC.
constexpr Duration kFirstSleep = std::chrono::microseconds(50);

std::uint64_t swap_if(std::atomic_ref<std::uint64_t> word, std::uint64_t expected, std::uint64_t desired) {
  word.compare_exchange_strong(expected, desired);
  return expected;  // now the old value, whether it was swapped or not
}

void transfer(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes == 8) return word_copy(to, from);  // a ControlWord travels whole
  bulk_copy(to, from, bytes);
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void HostChannel::post(const Operation& operation, Completion& completion) {
  if (operation.region->mapped() == nullptr) {
    if (operation.region->access() != nullptr) return ucx_->post(operation, completion);
    completion.outcome = Outcome::peer_lost;  // a region whose owner was lost when it would have been attached
    return;
  }
  assert_in_tests(
      operation.offset <= operation.region->bytes() && operation.bytes <= operation.region->bytes() - operation.offset,
      "an operation is within its region");
  const auto& access = static_cast<const DirectAccess&>(*operation.region->access());
  if (access.lost()) [[unlikely]] {
    completion.outcome = Outcome::peer_lost;
    return;
  }
  if (operation.kind == Operation::Kind::write) {
    // So that flush finds out whether the peer was lost meanwhile.
    const PeerId peer = operation.region->peer();
    const bool is_noted = peer < unflushed_.size() && unflushed_[peer].word == access.life();
    if (!is_noted) note_first_write(peer, access);
    return transfer(operation.region->mapped() + operation.offset, operation.local, operation.bytes);
  }
  fetch_direct(operation);
  // Looked at again: the memory of a peer that was lost meanwhile is blank.
  load_fence();
  if (access.lost()) [[unlikely]]
    completion.outcome = Outcome::peer_lost;
}

void HostChannel::fetch_direct(const Operation& operation) {
  assert_in_tests(!operation.is_atomic() || (operation.offset % 8 == 0 && operation.bytes == 8),
                  "an atomic is of one aligned word");
  std::byte* const place = operation.region->mapped() + operation.offset;
  const auto word = [place] { return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place)); };
  const auto give_old = [&operation](std::uint64_t old) {
    word_copy(operation.local, reinterpret_cast<const std::byte*>(&old));
  };
  switch (operation.kind) {
    case Operation::Kind::read: return transfer(operation.local, place, operation.bytes);
    case Operation::Kind::fetch_add: return give_old(word().fetch_add(operation.operand));
    case Operation::Kind::compare_swap: return give_old(swap_if(word(), operation.expected, operation.operand));
    case Operation::Kind::swap: return give_old(word().exchange(operation.operand));
    case Operation::Kind::write: return;  // fetches nothing
  }
}

void HostChannel::note_first_write(PeerId peer, const DirectAccess& access) {
  if (peer >= unflushed_.size()) unflushed_.resize(peer + 1);
  Unflushed& unflushed = unflushed_[peer];
  unflushed = unflushed.word == 0
                  ? Unflushed{access.life(), unflushed.lost, unflushed.fence_told, unflushed.signal_told}
                  : Unflushed{.word = access.life(), .lost = true};
}

bool HostChannel::lost_writes(PeerId peer) const {
  if (peer >= unflushed_.size()) return false;
  const Unflushed& unflushed = unflushed_[peer];
  const std::uint32_t word = peers_.word(peer).load(std::memory_order_acquire);
  return unflushed.lost || (unflushed.word != 0 && unflushed.word != word);
}

void HostChannel::note_signal(PeerId peer) {
  if (peer >= unflushed_.size()) return;
  Unflushed& unflushed = unflushed_[peer];
  if (unflushed.word == peers_.word(peer).load(std::memory_order_acquire)) unflushed.word = 0;
}

Outcome HostChannel::pass_writes(PeerId peer, bool Unflushed::*told) {
  if (!lost_writes(peer) || std::exchange(unflushed_[peer].*told, true)) return Outcome::done;
  return Outcome::peer_lost;
}

void HostChannel::finish(Completion& completion, Deadline deadline) {
  if (completion.pending == 0) return;
  assert_that(ucx_ != nullptr, "operations on mapped memory are finished when post returns");
  ucx_->finish(completion, deadline);
}

Outcome HostChannel::fence(PeerId peer, Deadline deadline) {
  full_fence();
  const Outcome direct = pass_writes(peer, &Unflushed::fence_told);
  return peers_.way(peer) == PeerTable::Way::ucx ? graver(direct, ucx_->fence(peer, deadline)) : direct;
}

Outcome HostChannel::flush(PeerId peer, Deadline deadline) {
  full_fence();
  return settle_writes(peer, deadline);
}

Outcome HostChannel::flush_all(Deadline deadline) {
  full_fence();
  Outcome all = ucx_ == nullptr ? Outcome::done : ucx_->flush_all(deadline);
  for (PeerId peer = 0; peer < unflushed_.size(); ++peer) {
    if (has_written(peer)) all = graver(all, settle_writes(peer, deadline));
  }
  return all;
}

Outcome HostChannel::flush_each(std::span<const PeerId> peers, Deadline deadline) {
  full_fence();
  Outcome all = Outcome::done;
  if (ucx_ != nullptr) {
    for (const Outcome flushed : ucx_->flush(peers, UcxChannel::kFlush, deadline)) all = graver(all, flushed);
  }
  for (const PeerId peer : peers) {
    if (has_written(peer)) all = graver(all, settle_writes(peer, deadline));
  }
  return all;
}

Outcome HostChannel::settle_writes(PeerId peer, Deadline deadline) {
  const Outcome direct = lost_writes(peer) ? Outcome::peer_lost : Outcome::done;
  if (peer < unflushed_.size()) unflushed_[peer] = {};
  switch (peers_.way(peer)) {
    case PeerTable::Way::direct: return direct;
    case PeerTable::Way::ucx:
      // UCX has nothing to say of a peer that it found lost when nothing was under way there.
      if (const Outcome flushed = ucx_->flush(peer, deadline); flushed != Outcome::done) return flushed;
      return fabric_.lost(peer) ? Outcome::peer_lost : direct;
    case PeerTable::Way::none:
    case PeerTable::Way::lost: break;
  }
  return Outcome::peer_lost;
}

void HostChannel::local_fence() { full_fence(); }

Outcome HostChannel::write_signals(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                                   Deadline deadline) {
  Completion all;
  std::vector<RemoteWord<ControlWord>> far;
  store_fence();
  for (const auto& word : words) {
    const RemoteRegion& region = *word.region;
    if (region.mapped() != nullptr) {
      const Outcome before = pass_writes(region.peer(), &Unflushed::signal_told);
      const Outcome stored = before == Outcome::done ? store(word, value, deadline) : before;
      if (stored == Outcome::done) {
        note_signal(region.peer());
        wake_sleepers(static_cast<const DirectAccess&>(*region.access()).header());
      }
      all.record(stored);
    } else if (region.access() != nullptr) {
      far.push_back(word);
    } else {
      all.record(Outcome::peer_lost);
    }
  }
  if (!far.empty()) all.record(signal_by_network(far, value, deadline));
  return all.outcome;
}

Outcome HostChannel::signal_by_network(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                                       Deadline deadline) {
  std::vector<PeerId> peers;
  for (const auto& word : words) peers.push_back(word.region->peer());

  // The targets' service threads wake the waiters when the words have come in. The second flush sees them on their way:
  // UCX may keep a small WRITE in a buffer until it is flushed.
  const std::vector<Outcome> before = ucx_->flush(peers, UcxChannel::kSignal, deadline);
  Completion all;
  Batch batch(*this);
  for (std::size_t i = 0; i < words.size(); ++i) {
    all.record(before[i]);
    if (before[i] == Outcome::done) batch.store(words[i], value);
  }
  all.record(batch.wait(deadline));
  for (const Outcome after : ucx_->flush(peers, UcxChannel::kSignal, deadline)) all.record(after);
  return all.outcome;
}

Result<std::uint64_t> HostChannel::add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) {
  const RemoteRegion& region = *word.region;
  const PeerId peer = region.peer();
  full_fence();
  if (region.mapped() == nullptr && region.access() != nullptr) {
    const Outcome before = ucx_->flush({&peer, 1}, UcxChannel::kSignal, deadline).front();
    if (before != Outcome::done) return {before, 0};
  }
  if (const Outcome before = pass_writes(peer, &Unflushed::signal_told); before != Outcome::done) return {before, 0};
  const Result<std::uint64_t> old = fetch_add(word, addend, deadline);
  if (old.done() && region.mapped() != nullptr) {
    note_signal(peer);
    wake_sleepers(static_cast<const DirectAccess&>(*region.access()).header());
  }
  return old;
}

Outcome HostChannel::wait_change(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                                 const Awaited& awaited) {
  const LocalWord<ControlWord> word = region.word<ControlWord>(offset);
  if (changes_while_looking(word, seen)) return Outcome::done;
  const Time start = monotonic_now();
  const Outcome outcome =
      changes_while_awake(word, seen, start)
          ? Outcome::done
          : sleep_until_changed(static_cast<const HostRegion&>(region).header(), word, seen, deadline, awaited);
  // A longer spin pays off only if a change came soon. A wait that saw no change, however short, does not show that.
  const bool was_soon = outcome == Outcome::done && monotonic_now() - start < kShortWait;
  yields_ = was_soon ? std::min(yields_ * 2 + 1, kMaxYields) : yields_ / 2;
  return outcome;
}

bool HostChannel::changes_while_looking(const LocalWord<ControlWord>& word, std::uint64_t seen) {
  const bool tries_again = ++waits_ % kWaitsToATry == 0;
  const unsigned looks = looking_pays_ || tries_again ? kMaxLooks : kMinLooks;
  looking_pays_ = false;
  for (unsigned look = 0; look < looks && !looking_pays_; ++look) {
    pause_cpu();
    looking_pays_ = word.load() != seen;
  }
  return looking_pays_;
}

bool HostChannel::changes_while_awake(const LocalWord<ControlWord>& word, std::uint64_t seen, Time start) const {
  Time before = start;
  for (unsigned yield = 0; yield < yields_; ++yield) {
    ::sched_yield();  // the thread that is to write may need this core
    if (word.load() != seen) return true;
    const Time now = monotonic_now();
    if (now - before > kShortWait) return false;  // another thread computes here: a wake-up gets the core back sooner
    before = now;
  }
  return false;
}

Outcome HostChannel::sleep_until_changed(RegionHeader& header, const LocalWord<ControlWord>& word, std::uint64_t seen,
                                         Deadline deadline, const Awaited& awaited) const {
  const Sleeper sleeper(header);
  for (Backoff<Duration> backoff(kFirstSleep, fabric::time_limits::kMaxSleep);;) {
    const std::uint32_t ticket = sleeper.ticket();
    if (word.load() != seen) return Outcome::done;
    if (lives_of(awaited.peers) != awaited.lives) return Outcome::peer_lost;
    if (std::ranges::any_of(awaited.peers, [this](PeerId peer) { return fabric_.lost(peer); })) {
      return Outcome::peer_lost;
    }
    const Duration left = deadline.at - monotonic_now();
    if (left <= Duration::zero()) return Outcome::timed_out;
    sleeper.sleep(ticket, std::min(backoff.next(), left));
  }
}

std::uint64_t HostChannel::lives_of(std::span<const PeerId> peers) const {
  std::uint64_t sum = 0;  // each life is a greater number than the one before
  for (const PeerId peer : peers) sum += peers_.life(peer);
  return sum;
}

}  // namespace farside
