// sim_fabric.h — a simulated process's fabric (fabric.h): each operation becomes its small steps, in a random order,
// among those of all other processes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "farside/fabric/fabric.h"

#include "sim/memory.h"
#include "sim/network.h"
#include "sim/scheduler.h"
#include "sim/wires.h"

namespace farside::sim {

/// The other end of an attached region.
class SimAccess final : public RemoteAccess {
 public:
  explicit SimAccess(std::shared_ptr<SimMemory> memory) : memory_(std::move(memory)) {}
  [[nodiscard]] const std::shared_ptr<SimMemory>& memory() const noexcept { return memory_; }

 private:
  std::shared_ptr<SimMemory> memory_;
};

class SimChannel;

class SimFabric final : public Fabric {
 public:
  SimFabric(Wires& wires, ProcessId process);
  /// Frees the channels that threads of a killed process, which run no destructors, have left open.
  ~SimFabric() override;

  [[nodiscard]] std::unique_ptr<Region> create_region(std::string name, std::uint64_t bytes) override;
  [[nodiscard]] std::string address() override { return std::to_string(process_); }
  void connect(PeerId peer, std::string_view address) override;
  [[nodiscard]] std::unique_ptr<RemoteRegion> attach(PeerId peer, std::string_view handle) override;
  [[nodiscard]] std::unique_ptr<Channel> open_channel() override;

  using Fabric::mark_lost;
  using Fabric::revoke;
  [[nodiscard]] PeerLife life(PeerId peer) const override;
  void mark_lost(PeerId peer, PeerLife life) override;
  [[nodiscard]] bool lost(PeerId peer) const override { return lost_.contains(peer); }
  [[nodiscard]] bool reaches_by_memory(PeerId /*peer*/) const override { return false; }
  /// Kills the peer, as the host fabric does with one on the same host, unless the network says otherwise. What it had
  /// posted to here does not land.
  Outcome revoke(PeerId peer, PeerLife life, Deadline deadline) override;

  [[nodiscard]] Time now() const override;
  void sleep(Duration duration) override;
  [[nodiscard]] std::uint64_t random() override { return wires_.scheduler().random(); }

  /// The connection to `peer`, which lives, breaks: it counts as lost until it is connected again.
  void break_connection(PeerId peer);
  /// Returns whether that is why it is lost: it was not declared dead.
  [[nodiscard]] bool is_broken(PeerId peer) const { return broken_.contains(peer); }

  // The machine is suspended, and then goes on: meanwhile its clock stands still.
  void suspend();
  void wake_up();

  /// When, by the scheduler's clock, this process's clock will have come to `time`.
  [[nodiscard]] Time moment_of(Time time) const;
  /// The process that `peer` was last connected to; each new one has a greater number.
  [[nodiscard]] ProcessId life_of(PeerId peer) const { return processes_.at(peer); }
  [[nodiscard]] ProcessId process() const noexcept { return process_; }
  [[nodiscard]] Wires& wires() const noexcept { return wires_; }
  void drain_own_stores() const;

  /// `hook` is called before each operation that this process posts, and with null before each fence and flush. When it
  /// pauses or kills the process, that is where the process stops.
  using Hook = std::function<void(const Operation*)>;
  void before_each(Hook hook) { hook_ = std::move(hook); }
  void begins(const Operation* operation);

  /// Channel::wait_change: looks now and then.
  Outcome watch(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                std::span<const PeerId> peers, std::uint64_t lives);
  /// As Channel::lives_of.
  [[nodiscard]] std::uint64_t lives_of(std::span<const PeerId> peers) const;

 private:
  friend class SimChannel;  // which is in channels_ while it exists

  void set_lost(PeerId peer);
  /// Whether it was marked lost although it lives.
  [[nodiscard]] bool given_up(PeerId peer) const {
    return lost(peer) && !is_broken(peer) && !wires_.scheduler().dead(life_of(peer));
  }

  Wires& wires_;
  ProcessId process_;
  std::int64_t parts_slow_ = 0;  ///< its clock loses this many parts in kParts; negative: it gains
  Duration ahead_{};             ///< of the scheduler's clock, at the beginning
  Duration suspended_{};         ///< for how long its machine was
  std::optional<Time> suspended_since_;
  std::map<PeerId, ProcessId> processes_;
  std::map<PeerId, PeerLife> connections_;  ///< how often each was connected
  std::set<PeerId> lost_;
  std::set<PeerId> broken_;
  std::vector<std::shared_ptr<SimMemory>> own_;
  std::vector<SimChannel*> channels_;  // that are open, by age
  Hook hook_;
};

}  // namespace farside::sim
