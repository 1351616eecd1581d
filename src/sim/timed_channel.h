// timed_channel.h — a simulated thread's way to its peers in a performance run: each operation is one event, at the
// moment that the machine's speed gives it.
//
// An operation takes effect when it completes. Nothing is lost and no process dies, so deadlines are not watched. A
// bulk transfer takes its time for all of its bytes, but only the first kCarriedBytes are copied: those that protocols
// look at. The rest of the memory is never touched, and so takes no place.
#pragma once

#include <optional>

#include "farside/fabric/channel.h"

#include "sim/sim_fabric.h"
#include "sim/timing.h"

namespace farside::sim {

class TimedChannel final : public Channel {
 public:
  static constexpr std::uint64_t kCarriedBytes = 256;

  explicit TimedChannel(SimFabric& fabric) : fabric_(fabric), scheduler_(fabric.wires().scheduler()) {}

  Outcome fence(PeerId peer, Deadline deadline) override;
  Outcome flush(PeerId peer, Deadline deadline) override;
  Outcome flush_all(Deadline deadline) override;
  Outcome flush_each(std::span<const PeerId> peers, Deadline deadline) override;
  void local_fence() override {}
  Outcome write_signals(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                        Deadline deadline) override;
  Result<std::uint64_t> add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) override;

 private:
  void post(const Operation& operation, Completion& completion) override;
  void finish(Completion& completion, Deadline deadline) override;
  Outcome wait_change(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                      const Awaited& awaited) override;
  [[nodiscard]] std::uint64_t lives_of(std::span<const PeerId> peers) const override { return fabric_.lives_of(peers); }

  void take_effect(const Operation& operation, Completion& completion);
  void wait_while(const std::uint32_t& pending);

  SimFabric& fabric_;
  Scheduler& scheduler_;
  Time poster_free_{};           ///< when the overheads of what was posted so far are over
  std::uint32_t under_way_ = 0;  ///< operations of this channel
  std::optional<Scheduler::Ticket> waiting_;
};

}  // namespace farside::sim
