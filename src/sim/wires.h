// wires.h — what connects the simulated processes: all memory that any of them offers, and the links between them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "sim/fault_count.h"
#include "sim/memory.h"
#include "sim/network.h"
#include "sim/scheduler.h"
#include "sim/timing.h"

namespace farside::sim {

class Wires {
 public:
  Wires(Scheduler& scheduler, const Network& network) : scheduler_(scheduler), network_(network) {}

  /// New memory and the handle to find it by.
  [[nodiscard]] std::pair<std::string, std::shared_ptr<SimMemory>> offer(ProcessId owner, std::string name,
                                                                         std::uint64_t bytes) {
    const std::string handle = std::to_string(owner) + "/" + std::to_string(memories_.size());
    const auto memory = std::make_shared<SimMemory>(scheduler_, network_, owner, std::move(name), bytes);
    memories_.emplace(handle, memory);
    return {handle, memory};
  }
  /// Null when there is no such memory.
  [[nodiscard]] std::shared_ptr<SimMemory> find(std::string_view handle) const {
    const auto found = memories_.find(handle);
    return found == memories_.end() ? nullptr : found->second;
  }

  /// A link that is cut passes nothing on until it is healed; what was under way lands then.
  void cut(ProcessId from, ProcessId to) { cut_.insert({from, to}); }
  /// Cut for a while.
  void stall(ProcessId from, ProcessId to, Duration duration) {
    cut(from, to);
    scheduler_.after(duration, [this, from, to] { cut_.erase({from, to}); });
  }
  void heal() {
    cut_.clear();
    healed_ = true;
  }
  /// From here on every revocation ends in time.
  [[nodiscard]] bool healed() const noexcept { return healed_; }
  [[nodiscard]] bool passes(ProcessId from, ProcessId to) const { return !cut_.contains({from, to}); }

  /// Fails what `from` has under way to `to` now. A part of a WRITE may land all the same.
  void break_connection(ProcessId from, ProcessId to) { ++breaks_[{from, to}]; }
  /// How often that was broken.
  [[nodiscard]] std::uint64_t breaks(ProcessId from, ProcessId to) const {
    const auto found = breaks_.find({from, to});
    return found == breaks_.end() ? 0 : found->second;
  }

  /// Nothing that `from` has posted, or will post, takes effect in the memory of `to` from here on.
  void take_access(ProcessId from, ProcessId to) { taken_.insert({from, to}); }
  void give_access(ProcessId from, ProcessId to) { taken_.erase({from, to}); }
  [[nodiscard]] bool access_taken(ProcessId from, ProcessId to) const { return taken_.contains({from, to}); }

  /// How a process ends whose access is revoked on one host, and the others learn of it.
  void on_kill(std::function<void(ProcessId)> kill) { kill_ = std::move(kill); }
  void kill(ProcessId process) const { kill_(process); }

  /// Numbers operations in traces.
  [[nodiscard]] std::uint64_t next_operation() { return ++operations_; }
  [[nodiscard]] std::uint64_t last_operation() const { return operations_; }

  /// Tells a chooser of a store to `at`, in case that lies in memory that `owner` offers.
  void touch_store(ProcessId owner, const std::byte* at, std::uint64_t value) const {
    for (const auto& [handle, memory] : memories_) {
      if (memory->owner() != owner) continue;
      if (const auto offset = memory->offset_of(at)) memory->touch_store(*offset, value);
    }
  }

  /// Counts in `count` which faults each step of the protocols meets. It outlives this.
  void count_faults(FaultCount& count) { fault_count_ = &count; }
  [[nodiscard]] FaultCount* fault_count() const noexcept { return fault_count_; }

  /// Has everything take the time that it takes on `machine`, and nothing odd happen: a performance run.
  void run_on(const Machine& machine, ProcessId processes) {
    timing_ = std::make_unique<Timing>(scheduler_, machine, processes);
  }
  /// Null but in a performance run.
  [[nodiscard]] Timing* timing() const noexcept { return timing_.get(); }

  [[nodiscard]] Scheduler& scheduler() const noexcept { return scheduler_; }
  [[nodiscard]] const Network& network() const noexcept { return network_; }

 private:
  Scheduler& scheduler_;
  const Network& network_;
  std::map<std::string, std::shared_ptr<SimMemory>, std::less<>> memories_;
  std::set<std::pair<ProcessId, ProcessId>> cut_;
  bool healed_ = false;
  std::set<std::pair<ProcessId, ProcessId>> taken_;
  std::map<std::pair<ProcessId, ProcessId>, std::uint64_t> breaks_;
  std::function<void(ProcessId)> kill_;
  std::uint64_t operations_ = 0;
  std::unique_ptr<Timing> timing_;
  FaultCount* fault_count_ = nullptr;
};

}  // namespace farside::sim
