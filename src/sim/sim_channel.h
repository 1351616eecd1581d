// sim_channel.h — a simulated thread's way to its peers.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "farside/fabric/channel.h"

#include "sim/fault_count.h"
#include "sim/flight.h"
#include "sim/sim_fabric.h"

namespace farside::sim {

class SimChannel final : public Channel {
 public:
  explicit SimChannel(SimFabric& fabric) : fabric_(fabric), scheduler_(fabric.wires().scheduler()) {
    fabric_.channels_.push_back(this);
  }
  ~SimChannel() override;

  Outcome fence(PeerId peer, Deadline deadline) override;
  Outcome flush(PeerId peer, Deadline deadline) override;
  Outcome flush_all(Deadline deadline) override;
  Outcome flush_each(std::span<const PeerId> peers, Deadline deadline) override;
  void local_fence() override;
  Outcome write_signals(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                        Deadline deadline) override;
  Result<std::uint64_t> add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) override;
  /// Ends the waits for `peer`, which counts as lost from now on.
  void lose(PeerId peer) { replace_link(peer, Outcome::peer_lost); }

 private:
  using Flights = std::vector<std::shared_ptr<Flight>>;
  /// A WRITE failed, or may have, and no flush has succeeded since.
  struct Failed {
    Outcome outcome;
    bool flush_told = false;
    bool fence_told = false;
    bool signal_told = false;
  };

  void post(const Operation& operation, Completion& completion) override;
  [[nodiscard]] Outcome begin_signal(PeerId peer);
  [[nodiscard]] CountedCall counted(const std::string& call) const;
  [[nodiscard]] Outcome told_before(PeerId peer, bool Failed::*told, const CountedCall& call);
  [[nodiscard]] bool wait_until_over(const Flights& flights, Deadline deadline);
  [[nodiscard]] Outcome ran_out(PeerId peer, bool Failed::*told);
  void end_broken_links();
  void replace_link(PeerId peer, Outcome outcome);
  void finish(Completion& completion, Deadline deadline) override;
  Outcome wait_change(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                      const Awaited& awaited) override;
  [[nodiscard]] std::uint64_t lives_of(std::span<const PeerId> peers) const override { return fabric_.lives_of(peers); }

  void forget_what_is_over();
  [[nodiscard]] Flights under_way(PeerId peer) const;
  /// The peers that a flush has something to do with.
  [[nodiscard]] std::set<PeerId> written() const;
  /// Waits within a call of the fabric.
  template <class Condition>
  [[nodiscard]] bool wait_for(Condition holds, Deadline deadline);

  SimFabric& fabric_;
  Scheduler& scheduler_;
  std::shared_ptr<Waiter> waiter_ = std::make_shared<Waiter>();
  Flights flights_;
  std::map<PeerId, Flights> fenced_;  ///< per target: what takes effect before anything that is posted now
  std::set<PeerId> unflushed_;        ///< written to since the last flush
  std::map<PeerId, Failed> failed_;
  bool signals_ = false;  ///< what is posted now is a signal
};

}  // namespace farside::sim
