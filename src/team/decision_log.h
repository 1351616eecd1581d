// decision_log.h — a coordinator's decisions (membership.h), each of which is durable before any process learns of it.
//
// The entries of its store (authority/decision_store.h): the head, the state when the log was begun, then decisions.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "farside/base/error.h"

#include "authority/decision_store.h"
#include "team/membership.h"

namespace farside::team {

/// The team of a log, and the options that all its members share.
struct LoggedTeam {
  std::string terms;
  Membership team;
};

/// Returns what the entries of a log say. Throws Error when they are none of this version's.
[[nodiscard]] LoggedTeam read_team(std::span<const std::string> entries);

/// Throws Error if `entries`, which `where` has, are those of a team of other members: of another size, with other
/// terms, or of another version. If that team has no members left they are of no use, and not in the way.
void expect_own(std::span<const std::string> entries, const std::string& terms, Rank size, const std::string& where);

class DecisionLog {
 public:
  using Kept = authority::Kept;

  /// Has `team` take what the store has, or begins it with its state. `terms`: what all members agree on beforehand.
  /// With `newer`, a state that the store may lack, that is taken instead. Throws Error when the store is of another
  /// team or damaged, or keeps nothing.
  DecisionLog(std::unique_ptr<authority::DecisionStore> store, std::string terms, Membership& team,
              const std::optional<TeamState>& newer = {});

  /// Unless it is kept, nothing may be appended any more. Requires: `team` has not taken it yet.
  Kept append(const Decision& decision);
  /// Has the state of `team` in the store, whatever was there.
  Kept rewrite();

  /// Returns its first entry.
  [[nodiscard]] std::string head() const;

  /// The next coordinator begins another team. Returns whether nothing is left.
  [[nodiscard]] bool remove() noexcept { return store_->remove(); }
  /// Returns why the last decision was not kept, and what to do.
  [[nodiscard]] std::string why() const { return why_.empty() ? store_->why() : why_; }

 private:
  void recover();
  template <class Attempt>
  Kept try_to(Attempt attempt);

  const std::unique_ptr<authority::DecisionStore> store_;
  const std::string terms_;
  Membership& team_;
  std::string why_;  ///< an exception's words
  std::uint64_t bytes_ = 0;
  std::uint64_t bytes_at_first_ = 0;  ///< of the head and the state
};

}  // namespace farside::team
