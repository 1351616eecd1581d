// fault_count.h — how often each step of the protocols met each fault: what the seeds of a test reach.
//
// A step is what is posted: READ, WRITE or atomic, and the word or bytes that it is for, like "atomic bucket row cell".
// A run may name the words of a region; otherwise all of a region's words count as one. Calls that post nothing are
// steps as well: "flush", "fence", "signal" (its report of earlier losses), "revoke", and "wait" with the region.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "farside/fabric/channel.h"

namespace farside::sim {

/// The faults that an operation can meet from its posting until it has landed, has failed, or never will; and those
/// that a call can meet.
enum class Fault : std::uint8_t {
  stalled,          ///< its thread stopped just before it was posted
  late,             ///< one of its steps took a thousand times as long
  poster_stopped,   ///< while it was under way
  poster_died,      ///< while it was under way
  landed_orphaned,  ///< it took effect after its poster's death
  timed_out,        ///< its poster gave it up
  landed_given_up,  ///< and it took effect afterwards
  target_stopped,   ///< while it was under way
  target_died,      ///< before it took effect
  link_cut,         ///< it could not get through for a while
  link_replaced,    ///< what was under way over its link ended
  access_taken,     ///< its poster's access was revoked before it took effect
  answered_late,    ///< its poster heard long after it took effect
  answer_lost,      ///< its poster was told that the target is lost, though it took effect
  link_broke,       ///< its poster was told that the link is lost, though it took effect
  signal_missed,    ///< a change that was waited for was found without a signal, after a sleep
};

[[nodiscard]] std::string_view to_string(Fault fault);

class FaultCount {
 public:
  static constexpr std::size_t kFaults = static_cast<std::size_t>(Fault::signal_missed) + 1;

  /// How the words of a region are called, by the region's name and the offset. Digits are dropped.
  using PlaceName = std::function<std::string(std::string_view region, std::uint64_t offset)>;
  /// From here on; before, regions may have been laid out otherwise.
  void call_places(PlaceName name) {
    place_name_ = std::move(name);
    known_.clear();
  }

  using Numbers = std::array<std::uint64_t, kFaults>;
  struct Step {
    std::uint64_t posted = 0;  ///< or called
    Numbers met{};
    std::uint32_t can_meet = 0;  ///< a bit for each fault
  };
  /// The step that an operation on `region` belongs to; its reference stays.
  [[nodiscard]] Step& step(Operation::Kind kind, const std::string& region, std::uint64_t offset);
  /// The step of a call that can meet these faults; its reference stays.
  [[nodiscard]] Step& call(const std::string& name, std::initializer_list<Fault> can_meet);

  /// A row for each step, a column for each fault.
  [[nodiscard]] std::string table() const;
  /// How often the step of that name met it; 0 when there is no such step.
  [[nodiscard]] std::uint64_t count(const std::string& step, Fault fault) const;
  /// "step: fault" for what was met, and for what was not.
  [[nodiscard]] std::set<std::string> met() const { return pairs(true); }
  [[nodiscard]] std::set<std::string> missing() const { return pairs(false); }

 private:
  [[nodiscard]] std::set<std::string> pairs(bool were_met) const;

  using Place = std::tuple<Operation::Kind, std::string, std::uint64_t>;

  PlaceName place_name_;
  std::map<std::string, Step> steps_;  // by name
  std::map<Place, Step*> known_;
};

/// Counts a call, unless `count` is null.
class CountedCall {
 public:
  CountedCall(FaultCount* count, const std::string& name, std::initializer_list<Fault> can_meet)
      : step_(count != nullptr ? &count->call(name, can_meet) : nullptr) {
    if (step_ != nullptr) ++step_->posted;
  }
  void meets(Fault fault) const {
    if (step_ != nullptr) ++step_->met.at(static_cast<std::size_t>(fault));
  }

 private:
  FaultCount::Step* step_;
};

}  // namespace farside::sim
