// flight.h — one operation under way. It outlives its channel and its poster: what was posted may land at any time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "farside/fabric/channel.h"

#include "sim/fault_count.h"
#include "sim/memory.h"
#include "sim/wires.h"

namespace farside::sim {

/// The thread that a channel belongs to.
struct Waiter {
  std::optional<Scheduler::Ticket> ticket;  ///< while it waits for something to complete
  bool in_call = false;                     ///< of the fabric: what it posted makes progress
  std::map<PeerId, std::uint64_t> flushed;  ///< by target: of operations up to this one nothing lands any more
  std::map<PeerId, std::uint64_t> links;    ///< by target: how often the channel's link to it was replaced
  std::set<PeerId> broken;                  ///< the links to these have just broken
};

class Flight : public std::enable_shared_from_this<Flight> {
 public:
  Flight(Wires& wires, ProcessId poster, const Operation& operation, std::shared_ptr<SimMemory> target,
         Completion& completion, std::shared_ptr<Waiter> waiter);

  /// Takes effect after `predecessors`, at moments drawn at random.
  void begin(std::vector<std::shared_ptr<Flight>> predecessors);

  /// Its poster gave it up: nothing local is touched from here on.
  void abandon();
  /// Its link ends, and with it what its poster waits for. It may have taken effect, and may still do so.
  void lose_link(Outcome outcome);
  /// The threads that wait at the target are woken when it has landed.
  void set_signal() { signals_ = true; }
  /// It is counted that `fault` met it.
  void meet(Fault fault);

  [[nodiscard]] bool belongs_to(const Completion& completion) const noexcept { return completion_ == &completion; }
  [[nodiscard]] PeerId peer() const noexcept { return peer_; }
  [[nodiscard]] bool is_read() const noexcept { return operation_.kind == Operation::Kind::read; }
  [[nodiscard]] bool is_write() const noexcept { return operation_.kind == Operation::Kind::write; }
  [[nodiscard]] bool is_atomic() const noexcept { return operation_.is_atomic(); }
  /// All its effects are there, or never will be.
  [[nodiscard]] bool landed() const noexcept { return landed_ || failed_; }
  /// And its poster can know.
  [[nodiscard]] bool over() const noexcept { return answered_ || failed_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// Its poster waits for it no more.
  [[nodiscard]] bool completed() const noexcept { return completion_ == nullptr; }
  [[nodiscard]] bool lost_link() const noexcept { return lost_link_; }

 private:
  using Step = void (Flight::*)(std::uint64_t);
  /// Does `step` after a delay, and after whatever holds the flight up; fails the flight when its target is silent.
  void attempt(Step step, std::uint64_t argument);
  /// Does `step` after a delay.
  void later(Duration delay, Step step, std::uint64_t argument);
  void begin_transfer();
  void transfer(std::uint64_t at);
  void move(std::uint64_t at);
  [[nodiscard]] std::uint64_t grain_bytes() const;
  void begin_atomic(std::uint64_t unused);
  void end_atomic(std::uint64_t unused);
  void complete_early(std::uint64_t unused);
  void step_is_done();
  void fail(std::uint64_t unused);
  void break_off(std::uint64_t at);
  void draw_remains();
  void land(std::uint64_t at);
  void land_atomic();
  void answer();
  void lose_answer(std::uint64_t unused);
  void tell(Outcome outcome);
  [[nodiscard]] bool may_go_on();
  [[nodiscard]] bool may_still_land();
  void look_for_faults();
  [[nodiscard]] bool target_is_silent() const;
  [[nodiscard]] bool access_taken() const { return wires_.access_taken(poster_, target_->owner()); }
  [[nodiscard]] bool is_broken() const {
    return wires_.breaks(poster_, target_->owner()) != breaks_before_ || waiter_->links[peer_] != link_;
  }
  [[nodiscard]] bool answer_passes() const { return wires_.passes(target_->owner(), poster_); }
  /// Whether what came back is still wanted.
  [[nodiscard]] bool is_awaited() const { return completion_ != nullptr && !wires_.scheduler().dead(poster_); }
  void touch_transfer(std::uint64_t begin, std::uint64_t end) const;
  void touch_thread() const;
  [[nodiscard]] Duration delay();
  void record(const char* what, std::uint64_t offset, std::uint64_t value) const;

  Wires& wires_;
  std::uint64_t number_;
  ProcessId poster_;
  std::uint32_t thread_;
  Operation operation_;  // whose region may be gone when what is late lands
  PeerId peer_;
  std::shared_ptr<SimMemory> target_;
  std::uint64_t breaks_before_;
  std::uint64_t link_;  // the channel's, to its target
  // The part of a WRITE whose connection broke that lands.
  std::uint64_t lands_to_ = 0;      // of its target's memory: all before this place
  std::uint64_t lands_one_in_ = 0;  // and of what comes then; 0: nothing
  std::vector<std::byte> source_;   // what a WRITE carries: as posted, or as read since
  Completion* completion_;          // null once it was told or abandoned
  std::shared_ptr<Waiter> waiter_;
  std::vector<std::shared_ptr<Flight>> predecessors_;
  std::size_t landed_before_ = 0;  // as many of the first predecessors have landed, and stay so
  Scheduler::Group steps_;
  std::uint64_t steps_left_ = 1;
  std::uint64_t old_ = 0;  // what an atomic found
  bool landed_ = false;
  bool answered_ = false;
  bool failed_ = false;
  bool given_up_ = false;
  bool lost_link_ = false;
  bool signals_ = false;
  FaultCount::Step* counted_ = nullptr;  // null: nowhere
  std::uint32_t faults_ = 0;             // one bit for each that it met
  std::uint64_t poster_pauses_;
  std::uint64_t target_pauses_;
};

}  // namespace farside::sim
