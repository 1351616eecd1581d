// world.h — a simulated cluster: processes that form a team, their threads, and their faults.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "farside/team/team.h"

#include "sim/network.h"
#include "sim/scheduler.h"
#include "sim/sim_fabric.h"

namespace farside::sim {

class World;

class SimTeam final : public team::Team {
 public:
  SimTeam(World& world, SimFabric& fabric, team::Rank rank, team::Rank size, std::uint16_t incarnation)
      : world_(world), fabric_(fabric), rank_(rank), size_(size), incarnation_(incarnation) {}

  [[nodiscard]] team::Rank rank() const override { return rank_; }
  [[nodiscard]] team::Rank size() const override { return size_; }
  [[nodiscard]] Fabric& fabric() override { return fabric_; }
  [[nodiscard]] std::uint16_t incarnation() const override { return incarnation_; }
  [[nodiscard]] std::unique_ptr<team::SymmetricRegion> allocate(const std::string& name, std::uint64_t bytes) override;
  Outcome barrier(Deadline deadline) override;
  [[nodiscard]] std::uint64_t epoch() const override;
  [[nodiscard]] bool has_died(team::Rank rank) override;
  [[nodiscard]] bool is_out(team::Rank rank) override;
  Outcome evict(team::Rank rank, Deadline deadline) override;

  /// `rank` came back and has allocated `name` again: its new piece takes the place of the old one.
  void take_back(team::Rank rank, const std::string& name, const std::string& handle);

 private:
  World& world_;
  SimFabric& fabric_;
  team::Rank rank_;
  team::Rank size_;
  std::uint16_t incarnation_;
  std::uint64_t barriers_ = 0;
  std::set<ProcessId> evicted_;  // by this process
  std::map<std::string, std::weak_ptr<team::Pieces>> regions_;
};

class World {
 public:
  World(std::uint64_t seed, team::Rank processes, const Network& network);
  /// A performance run, in which no process may be killed or paused.
  World(std::uint64_t seed, team::Rank processes, const Machine& machine);

  [[nodiscard]] Scheduler& scheduler() noexcept { return scheduler_; }
  [[nodiscard]] Wires& wires() noexcept { return wires_; }
  [[nodiscard]] SimTeam& team(team::Rank rank) { return *lives_.at(rank).team; }
  [[nodiscard]] SimFabric& fabric(team::Rank rank) { return *lives_.at(rank).fabric; }
  [[nodiscard]] team::Rank size() const noexcept { return static_cast<team::Rank>(lives_.size()); }

  /// A thread of process `rank`.
  void on(team::Rank rank, std::function<void()> body) { scheduler_.spawn(fabric(rank).process(), std::move(body)); }
  /// Until all threads of living processes have finished; false when they had not within `limit` of virtual time.
  bool run(Duration limit) { return scheduler_.run(scheduler_.now() + limit); }

  /// Within a thread of `reader`, in a performance run: takes the time of reading that piece of a file.
  void read_file(team::Rank reader, std::uint64_t offset, std::uint64_t bytes);

  // Faults of a process. The others learn of a death a little later.
  void kill(team::Rank rank);
  /// Member `by` has `rank` evicted: killed, where revoking kills. Otherwise it lives on. The others learn of it a
  /// little later, take its access to them away, and it takes them for lost; or, where no eviction is announced, none
  /// does. Where they are announced, one by a member that was evicted itself is not heard.
  void evict(team::Rank by, team::Rank rank);
  /// The team decides that the present process of `rank` is dead, which may live. `to` is told at once, no other
  /// member.
  void declare_dead(team::Rank rank, team::Rank to);
  /// Returns whether some member has had the present process of `rank` evicted.
  [[nodiscard]] bool evicted(team::Rank rank) { return evicted_.contains(fabric(rank).process()); }
  /// A killed process's successor, with empty memory: another process to the simulator, which `on` then speaks of. What
  /// the old one posted still lands, in the memory that it was posted to.
  void restart(team::Rank rank);
  /// Stops its threads; where the network says so, perhaps by suspending its machine.
  void pause(team::Rank rank, Duration duration);
  /// Whatever befell links and processes is over, and nothing is late from now on. The dead stay dead.
  void heal();
  [[nodiscard]] bool alive(team::Rank rank) { return !scheduler_.dead(fabric(rank).process()); }

 private:
  friend class SimTeam;  // whose ranks meet in meetings_

  struct Life {
    std::unique_ptr<SimFabric> fabric;
    std::unique_ptr<SimTeam> team;
  };
  [[nodiscard]] Life make_life(team::Rank rank, ProcessId process, std::uint16_t incarnation, team::Rank size);
  void resume(SimFabric& paused);
  void tell_loss(team::Rank to, team::Rank rank);
  void tell_eviction(team::Rank to, team::Rank rank);
  void tell_cut_off(team::Rank rank, team::Rank from);
  /// Returns whether the team has decided that this process is dead.
  [[nodiscard]] bool is_decided_dead(ProcessId process) {
    return scheduler_.dead(process) || declared_dead_.contains(process) ||
           (network_.announces_evictions && evicted_.contains(process));
  }
  void tell_return(team::Rank rank, const std::string& name);

  Network network_;
  Scheduler scheduler_;
  Wires wires_;
  std::vector<Life> lives_;  // by rank
  std::vector<Life> past_;   // whose frozen threads still refer to them
  ProcessId next_process_ = 0;
  std::map<std::string, std::map<team::Rank, std::string>> meetings_;  // what each rank has brought, by occasion
  std::set<ProcessId> evicted_;
  std::set<ProcessId> declared_dead_;
  std::uint64_t deaths_ = 0;  // and evictions that are announced
};

}  // namespace farside::sim
