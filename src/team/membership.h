// membership.h — what has been decided about a team: which incarnation has each rank, which ranks are lost, and what
// each gave to each exchange. The coordinator decides, and applies each decision here once it is in its log
// (decision_log.h): so a coordinator that is started again has the state of the one before.
//
// It takes nothing from sockets or clocks. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "farside/team/team.h"

#include "net/session.h"
#include "team/bootstrap.h"

namespace farside::team {

/// The state of one rank.
struct SeatState {
  std::uint16_t incarnation = 0;       ///< of the process that was admitted last
  std::uint16_t next_incarnation = 0;  ///< of the next one
  bool is_present = false;  ///< the former has taken part in every exchange that is complete, and is not lost
};

/// A process has a rank; it is present when it has taken part in the exchanges that are complete.
struct Admitted {
  Rank rank = 0;
};
/// An exchange is complete, in which each rank gave one of these.
struct Exchanged {
  std::vector<std::string> blobs;
};
/// A rank that was present is lost: an epoch begins.
struct Lost {
  Rank rank = 0;
  Loss loss{};
};
/// A rank is present again, and has given this to each exchange that is complete: an epoch begins.
struct Returned {
  Rank rank = 0;
  std::vector<std::string> blobs;
};

/// From now on members get this silence time (liveness.h).
struct SilenceChosen {
  std::uint32_t beats = 0;
};

/// The begin of an epoch.
using Change = std::variant<Lost, Returned>;

/// The team as a whole: the first decision of a log.
struct TeamState {
  /// A number that no other team has. One more for each time that all ranks were lost and others formed a new team.
  std::uint64_t team = 0;
  /// One more for each time that a coordinator was started from a copy of the log, which may lack decisions.
  std::uint32_t generation = 0;
  /// It was started from such a copy, and waits for each rank that the copy has, however long that takes.
  bool awaits_all = false;
  std::uint32_t epoch = 0;  ///< losses and returns so far
  std::vector<SeatState> seats;
  std::vector<std::vector<std::string>> exchanges{};  ///< those that are complete: the newest blob of each rank
  std::deque<Change> changes{};                       ///< that the last epochs began with
  std::uint32_t silent_beats = 0;                     ///< the largest silence time that a member may still have
};

/// Returns that of a coordinator which begins from a copy of a log, or from one of which the last decisions may be
/// missing.
[[nodiscard]] TeamState rebuilt(TeamState state);

using Decision = std::variant<TeamState, Admitted, Exchanged, Lost, Returned, SilenceChosen>;

[[nodiscard]] std::string encode_decision(const Decision& decision);
/// For a team of `size`. Throws Error when the bytes are none.
[[nodiscard]] Decision decode_decision(std::string_view bytes, Rank size);

/// The frame that tells a member of a change.
struct Notice {
  net::FrameKind kind;
  std::string fields;
};

class Membership {
 public:
  /// Nothing is decided yet.
  explicit Membership(Rank size) { state_.seats.resize(size); }

  /// Throws Error when it does not follow from what was decided before.
  void apply(Decision decision);

  [[nodiscard]] const TeamState& state() const noexcept { return state_; }
  [[nodiscard]] Rank size() const noexcept { return static_cast<Rank>(state_.seats.size()); }
  [[nodiscard]] const SeatState& seat(Rank rank) const { return state_.seats.at(rank); }
  /// All ranks have taken part in an exchange. Until then no process is missed that goes.
  [[nodiscard]] bool is_formed() const noexcept { return !state_.exchanges.empty(); }
  /// The team is formed, and the others count on the process of that rank.
  [[nodiscard]] bool is_present(Rank rank) const { return is_formed() && seat(rank).is_present; }
  /// `team` was this one before all its ranks were lost.
  [[nodiscard]] bool has_succeeded(std::uint64_t team) const noexcept {
    constexpr std::uint64_t kMaxSuccessions = 1U << 16U;
    return team != state_.team && state_.team - team < kMaxSuccessions;
  }
  /// No process is left that knows what the team had agreed on.
  [[nodiscard]] bool is_deserted() const;

  /// The losses and returns after `epoch`, in order; none when that is not known any more, or has not been yet.
  [[nodiscard]] std::optional<std::vector<Notice>> notices_after(std::uint32_t epoch) const;

 private:
  /// A member that has missed more than these cannot follow.
  static constexpr std::size_t kMaxChanges = 1024;

  void expect(bool holds, const std::string& otherwise) const;
  void take(TeamState&& state);
  void take(const Admitted& admitted);
  void take(Exchanged&& exchanged);
  void take(const Lost& lost);
  void take(Returned&& returned);
  void take(const SilenceChosen& chosen) { state_.silent_beats = chosen.beats; }
  void note(Change change);

  TeamState state_;
};

}  // namespace farside::team
