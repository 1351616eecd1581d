// group.h — ranks that meet: what Barrier and Collectives have in common.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "farside/comm/barrier.h"

#include "comm/protocol/meeting.h"

namespace farside {

[[nodiscard]] std::vector<Rank> all_ranks(const Team& team);

class Group {
 public:
  /// Collective over the team. No `members` are all ranks.
  Group(Comm& comm, std::vector<Rank> members, const std::string& what, std::uint64_t payload_bytes = 0);

  [[nodiscard]] Meeting& meeting() noexcept { return meeting_; }
  [[nodiscard]] const std::vector<Rank>& members() const noexcept { return meeting_.members(); }

  /// Arrives at the meeting of that number.
  using Attend = std::function<Outcome(Channel&, std::uint64_t number, Deadline)>;
  /// Opens a meeting and has `attend` done: here and now where all members are reached by memory, otherwise in the
  /// background: it keeps what it refers to and this group, or the group is settled before they go.
  Barrier::Begun begin(Channel& channel, Attend attend, Deadline deadline);
  Ended wait(Channel& channel, std::uint64_t number, Deadline deadline);
  /// Waits until the service thread is done with what was begun here; that it has ended at this member is no proof.
  void settle() const;

 private:
  [[nodiscard]] Ended named(Outcome outcome) const;

  Comm& comm_;
  Meeting meeting_;
  const bool all_near_;                         ///< reached by memory
  std::atomic<std::uint64_t> last_issued_ = 0;  ///< the newest Request in the background
};

}  // namespace farside
