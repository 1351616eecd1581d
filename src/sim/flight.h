// flight.h — one operation under way. It outlives its channel and its poster: what was posted may land at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "farside/fabric/channel.h"

#include "sim/memory.h"
#include "sim/wires.h"

namespace farside::sim {

/// A thread that waits for something to complete.
struct Waiter {
  std::optional<Scheduler::Ticket> ticket;
};

class Flight : public std::enable_shared_from_this<Flight> {
 public:
  Flight(Wires& wires, ProcessId poster, const Operation& operation, std::shared_ptr<SimMemory> target,
         Completion& completion, std::shared_ptr<Waiter> waiter);

  /// Takes effect after `predecessors`, at moments drawn at random.
  void begin(std::vector<std::shared_ptr<Flight>> predecessors);

  /// Its poster gave it up: nothing local is touched from here on.
  void abandon();

  [[nodiscard]] bool belongs_to(const Completion& completion) const noexcept { return completion_ == &completion; }
  [[nodiscard]] PeerId peer() const noexcept { return operation_.region->peer(); }
  [[nodiscard]] bool is_write() const noexcept { return operation_.kind == Operation::Kind::write; }
  /// All its effects are there, or never will be.
  [[nodiscard]] bool over() const noexcept { return landed_ || failed_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  using Step = void (Flight::*)(std::uint64_t);
  /// Does `step` after a delay, and after whatever holds the flight up; fails the flight when its target is silent.
  void attempt(Step step, std::uint64_t argument);
  void later(Duration delay, Step step, std::uint64_t argument);
  void begin_transfer();
  void transfer(std::uint64_t at);
  void begin_atomic(std::uint64_t unused);
  void end_atomic(std::uint64_t old);
  void complete_early(std::uint64_t unused);
  void step_is_done();
  void fail(std::uint64_t unused);
  void tell(Outcome outcome);
  [[nodiscard]] bool must_wait() const;
  [[nodiscard]] bool target_is_silent() const;
  [[nodiscard]] Duration delay();
  void record(const char* what, std::uint64_t offset, std::uint64_t value) const;

  Wires& wires_;
  ProcessId poster_;
  Operation operation_;
  std::shared_ptr<SimMemory> target_;
  std::vector<std::byte> source_;  // what a WRITE carries
  Completion* completion_;         // null once it was told or abandoned
  std::shared_ptr<Waiter> waiter_;
  std::vector<std::shared_ptr<Flight>> predecessors_;
  std::uint64_t steps_left_ = 1;
  bool landed_ = false;
  bool failed_ = false;
};

}  // namespace farside::sim
