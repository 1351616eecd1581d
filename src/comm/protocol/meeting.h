// meeting.h — the members of a group meet: a barrier, or a reduction when they bring something
// (docs/protocols/comm.md, "Meeting").
//
// Guarantee: a meeting ends at a member only after every member has arrived; what a member wrote, flushed or stored
// before it arrived is then visible to all. The last member to arrive at a node of the tree does that node's work, so a
// meeting ends without a call by any process but the arriving members: on memory that all of them map, even while all
// the others are stopped.
//
// Up to kInFlight meetings are under way at once. Their words lie in slots, which are never reset:
//
//   released[slot]         at each member     ControlWord: the number of the last meeting in this slot that ended
//   counter[level][slot]   at a node's host   AtomicWord: arrivals, over all meetings of this slot
//   brought[level][slot]   at a node's host   Bulk, one piece a child: what arrived there
//   result[slot]           at each member     Bulk
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "farside/team/team.h"

#include "base/mutex.h"
#include "comm/protocol/combining_tree.h"
#include "comm/protocol/rules.h"

namespace farside::comm {

class Meeting {
 public:
  static constexpr std::uint64_t kInFlight = 8;

  /// Combines what a later child brought into what an earlier one did.
  using Combine = std::function<void(std::span<std::byte> into, std::span<const std::byte> from)>;

  /// Collective over the team: each rank with the group that it is in, `members` in ascending order. What members bring
  /// has at most `payload_bytes`, the same number at all ranks.
  Meeting(team::Team& team, std::vector<team::Rank> members, const std::string& name, std::uint64_t payload_bytes = 0,
          const MeetingRules& rules = {});

  [[nodiscard]] const std::vector<team::Rank>& members() const noexcept { return members_; }
  /// This rank's place among them.
  [[nodiscard]] std::uint32_t place() const noexcept { return self_; }

  /// `report` is told of each meeting that this member comes to although what it wrote to a rank that is no member may
  /// be lost. It may be called by any thread that arrives.
  using Report = std::function<void(std::uint64_t number, Outcome flushed)>;
  void on_unflushed(Report report) { report_ = std::move(report); }

  /// The number of a new meeting, from 1. Waits for the one that had its slot. Ends with 0 when that fails.
  Result<std::uint64_t> open(Channel& channel, Deadline deadline);
  /// Before this member arrives: what was written through `channel` to members is visible; otherwise it does not
  /// arrive. Writes to ranks that are no members have a bounded time. What fails there concerns this member alone: it
  /// is reported, and does not count.
  Outcome flush(Channel& channel, std::uint64_t number, Deadline deadline);
  /// Flushes, arrives, and climbs as far as this member is the last one. Nothing but that is waited for.
  Outcome arrive(Channel& channel, std::uint64_t number, std::span<std::byte> payload, const Combine& combine,
                 Deadline deadline);
  Outcome arrive(Channel& channel, std::uint64_t number, Deadline deadline) {
    return arrive(channel, number, {}, {}, deadline);
  }

  /// Meetings end in the order of their numbers.
  [[nodiscard]] bool ended(std::uint64_t number) const;
  /// peer_lost when a member is lost that had not been released. A member that left after its meeting had ended is no
  /// loss to those that still wait for it.
  Outcome wait(Channel& channel, std::uint64_t number, Deadline deadline) const;
  /// Requires that the meeting has ended and its slot has not been opened again.
  void take_result(std::uint64_t number, std::span<std::byte> into) const;

 private:
  [[nodiscard]] static std::uint64_t slot_of(std::uint64_t number) { return number % kInFlight; }
  [[nodiscard]] std::uint64_t released_offset(std::uint64_t number) const;
  [[nodiscard]] std::uint64_t counter_offset(std::uint32_t level, std::uint64_t number) const;
  [[nodiscard]] std::uint64_t brought_offset(std::uint32_t level, std::uint64_t number, std::uint32_t child) const;
  [[nodiscard]] std::uint64_t result_offset(std::uint64_t number) const;
  [[nodiscard]] LocalWord<ControlWord> released(std::uint64_t number) const;
  [[nodiscard]] bool is_released(std::uint64_t number) const;
  /// The oldest meeting that may not have ended when `number` is open.
  [[nodiscard]] static std::uint64_t first_under_way(std::uint64_t number);

  Outcome flush_outside(Channel& channel, Deadline deadline);
  /// Enters what the member brings to `node`; the outcome's value is whether it came last.
  Result<std::uint64_t> enter(Channel& channel, const CombiningTree::Node& node, std::uint64_t number,
                              std::span<std::byte> payload, Deadline deadline);
  /// In `pieces`, what all children have brought, as the first of them.
  Outcome combine_all(Channel& channel, const CombiningTree::Node& node, std::uint64_t number, std::uint64_t bytes,
                      std::vector<std::byte>& pieces, const Combine& combine, Deadline deadline);
  Outcome release(Channel& channel, std::uint64_t number, std::span<std::byte> result, Deadline deadline);
  Outcome release_all(Channel& channel, std::uint64_t number, std::uint64_t flag, std::span<std::byte> result,
                      Deadline deadline);
  /// The same for this member alone.
  void release_here(Channel& channel, std::uint64_t number, std::uint64_t flag,
                    std::span<const std::byte> result) const;
  Outcome wait_for_release(Channel& channel, std::uint64_t number, Deadline deadline) const;
  /// Returns done when a member was released, as this one is then, and peer_lost when none was.
  Outcome end_after_a_loss(std::uint64_t number, Deadline deadline) const;
  /// False when the root's host does not say so.
  [[nodiscard]] bool some_have_not_arrived(Channel& asking, std::uint64_t number) const;
  /// Releases this member, with the result, if `member` is released.
  Outcome take_release(Channel& asking, team::Rank member, std::uint64_t number) const;

  const MeetingRules rules_;
  Fabric& fabric_;
  Report report_;
  const std::vector<team::Rank> members_;
  const bool has_outside_;  ///< ranks that are no members
  std::vector<team::Rank> others_;
  std::uint32_t self_;
  const std::vector<CombiningTree::Node> way_up_;
  const std::uint64_t payload_bytes_;  ///< rounded up to lines
  const std::uint32_t levels_;         ///< for which there is memory: those of a group of all ranks
  std::unique_ptr<team::SymmetricRegion> memory_;

  Mutex mutex_;
  std::uint64_t opened_ GUARDED_BY(mutex_) = 0;
  Time outside_is_slow_until_ GUARDED_BY(mutex_){};  ///< and has less time until then
};

}  // namespace farside::comm
