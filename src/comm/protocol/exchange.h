// exchange.h — each member of a meeting writes a piece for each other one before it arrives
// (docs/protocols/comm.md, "Exchange").
//
//   piece[slot][member]    at each member     Bulk: what that member wrote for this one, in the meeting of that slot
//
// Guarantee: when the meeting has ended at a member, it finds all that was written for it, and it keeps that until it
// ends the meeting. For that, a rank that begins a meeting has ended the one that was kUnderWay before: then all
// members have begun that one, and have ended the one whose slot is used again.
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/protocol/meeting.h"
#include "comm/protocol/rules.h"

namespace farside::comm {

class Exchange {
 public:
  /// Begun and not ended, at one member.
  static constexpr std::uint64_t kUnderWay = Meeting::kInFlight / 2;

  /// Collective over the team. `meeting` is that of the members, and outlives this.
  Exchange(team::Team& team, Meeting& meeting, const std::string& name, const ExchangeRules& rules = {});

  /// The longest that one member can write for another.
  [[nodiscard]] std::uint64_t piece_bytes() const noexcept { return piece_bytes_; }
  /// Returns the bytes for one member.
  using Outgoing = std::function<std::span<std::byte>(std::size_t member)>;
  /// Writes to each member what is for it, and arrives.
  Outcome arrive(Channel& channel, std::uint64_t number, const Outgoing& outgoing, Deadline deadline);
  /// Copies the bytes that `member` wrote for this one, from `at` on. Requires that the meeting has ended.
  void take(std::uint64_t number, std::size_t member, std::span<std::byte> into, std::uint64_t at = 0) const;

 private:
  [[nodiscard]] std::uint64_t place(std::uint64_t number, std::size_t member) const;

  Meeting& meeting_;
  const ExchangeRules rules_;
  const std::uint64_t pieces_;  ///< in a slot: for a group of all ranks
  const std::uint64_t piece_bytes_;
  std::unique_ptr<team::SymmetricRegion> memory_;
};

}  // namespace farside::comm
