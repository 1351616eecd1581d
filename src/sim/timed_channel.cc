#include "sim/timed_channel.h"

#include <algorithm>
#include <cstring>

#include "sim/atomics.h"

namespace farside::sim {

void TimedChannel::post(const Operation& operation, Completion& completion) {
  Timing& timing = *fabric_.wires().timing();
  const auto& target = static_cast<const SimAccess&>(*operation.region->access()).memory();
  poster_free_ = std::max(poster_free_, scheduler_.now()) + timing.machine().network.overhead;
  ++completion.pending;
  ++under_way_;
  timing.operate({.poster = fabric_.process(),
                  .target = target->owner(),
                  .bytes = operation.bytes,
                  .outward = operation.kind == Operation::Kind::write},
                 poster_free_ - scheduler_.now(),
                 [this, operation, &completion] { take_effect(operation, completion); });
}

void TimedChannel::take_effect(const Operation& operation, Completion& completion) {
  std::byte* const remote =
      static_cast<const SimAccess&>(*operation.region->access()).memory()->base() + operation.offset;
  const std::uint64_t carried = operation.bytes < Timing::kBulkBytes ? operation.bytes : kCarriedBytes;
  std::uint64_t old = 0;
  switch (operation.kind) {
    case Operation::Kind::read: std::memcpy(operation.local, remote, carried); break;
    case Operation::Kind::write: std::memcpy(remote, operation.local, carried); break;
    default:
      std::memcpy(&old, remote, 8);
      const std::uint64_t changed = changed_by(operation, old);
      std::memcpy(remote, &changed, 8);
      std::memcpy(operation.local, &old, 8);
  }
  --completion.pending;
  --under_way_;
  if (waiting_) scheduler_.go_on(*waiting_);
}

void TimedChannel::finish(Completion& completion, Deadline /*deadline*/) { wait_while(completion.pending); }

Outcome TimedChannel::fence(PeerId /*peer*/, Deadline /*deadline*/) {
  wait_while(under_way_);
  return Outcome::done;
}

Outcome TimedChannel::flush(PeerId peer, Deadline deadline) { return fence(peer, deadline); }

Outcome TimedChannel::flush_all(Deadline /*deadline*/) {
  wait_while(under_way_);
  return Outcome::done;
}

Outcome TimedChannel::flush_each(std::span<const PeerId> /*peers*/, Deadline deadline) { return flush_all(deadline); }

Outcome TimedChannel::write_signals(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                                    Deadline deadline) {
  wait_while(under_way_);
  Batch batch(*this);
  for (const auto& word : words) batch.store(word, value);
  return batch.wait(deadline);
}

Result<std::uint64_t> TimedChannel::add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) {
  wait_while(under_way_);
  return fetch_add(word, addend, deadline);
}

Outcome TimedChannel::wait_change(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                                  const Awaited& awaited) {
  return fabric_.watch(region, offset, seen, deadline, awaited.peers, awaited.lives);
}

void TimedChannel::wait_while(const std::uint32_t& pending) {
  while (pending != 0) {
    waiting_ = scheduler_.ticket();
    scheduler_.sleep_until_gone_on();
    waiting_.reset();
  }
}

}  // namespace farside::sim
