// group.h — ranks that meet: what Barrier and Collectives have in common.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farside/comm/barrier.h"

#include "base/mutex.h"
#include "comm/failures.h"
#include "comm/protocol/meeting.h"

namespace farside::comm {

[[nodiscard]] std::vector<team::Rank> all_ranks(const team::Team& team);
/// Throws UsageError when there is no such rank.
void check_rank(const team::Team& team, team::Rank rank, const std::string& tried);
/// The same for several; none stand for all ranks.
[[nodiscard]] std::vector<team::Rank> ranks_or_all(const team::Team& team, std::vector<team::Rank> ranks,
                                                   const std::string& tried);

/// Owned by a shared_ptr: what it has in the background keeps it.
class Group : public std::enable_shared_from_this<Group> {
 public:
  /// Collective over the team. No `members` are all ranks.
  Group(Comm& comm, std::vector<team::Rank> members, const std::string& what, std::uint64_t payload_bytes = 0);

  [[nodiscard]] Meeting& meeting() noexcept { return meeting_; }
  [[nodiscard]] const std::vector<team::Rank>& members() const noexcept { return meeting_.members(); }

  /// Opens a meeting and has `attend(channel, number, deadline)` arrive at it: here and now where all members are
  /// reached by memory, otherwise in the background, after attend.keep() if it has that: what it refers to then, it
  /// owns, or the group is settled before that goes.
  template <class Attend>
  Barrier::Begun begin(Channel& channel, Attend attend, Deadline deadline) {
    const Result<std::uint64_t> opened = open(channel, deadline);
    if (!opened.done()) return {named(opened.status), 0};
    const std::uint64_t number = opened.value;
    if (all_near_ && comm_.idle()) return {attended(attend, channel, number, deadline), number};
    if constexpr (requires { attend.keep(); }) attend.keep();
    auto task = [self = shared_from_this(), number, attend = std::move(attend)](Channel& by, Deadline until) mutable {
      return self->attended(attend, by, number, until);
    };
    return attend_later(channel, number, std::move(task), deadline);
  }
  /// For the meeting's end. One that this member could not come to fails at once; throws what kept it from coming, if
  /// that was an exception.
  Status wait(Channel& channel, std::uint64_t number, Deadline deadline);
  /// How what this member wrote to ranks outside the group, before it came to a meeting, was flushed.
  [[nodiscard]] Status unflushed(std::uint64_t number) const;
  /// Waits until the service thread is done with what was begun here; that it has ended at this member is no proof.
  void settle() const;

 private:
  /// An exception of `attend`, that is, of a reduction's operator, is recorded as well.
  template <class Attend>
  Status attended(Attend& attend, Channel& channel, std::uint64_t number, Deadline deadline) {
    try {
      return arrived(number, attend(channel, number, deadline));
    } catch (...) {
      const MutexLock lock(failures_mutex_);
      absences_.add_thrown(number, std::current_exception());
      throw;
    }
  }
  Result<std::uint64_t> open(Channel& channel, Deadline deadline);
  Barrier::Begun attend_later(Channel& channel, std::uint64_t number, Comm::Task task, Deadline deadline);
  [[nodiscard]] Status named(Outcome outcome) const;
  /// How this member came to the meeting, which is remembered when it did not.
  Status arrived(std::uint64_t number, Outcome outcome);

  Comm& comm_;
  Meeting meeting_;
  const bool all_near_;                         ///< reached by memory
  std::atomic<std::uint64_t> last_issued_ = 0;  ///< the newest Request in the background

  mutable Mutex failures_mutex_;
  Failures absences_ GUARDED_BY(failures_mutex_);  ///< meetings that this member could not come to
  /// Meetings that it came to without some of its writes.
  Failures unflushed_ GUARDED_BY(failures_mutex_);
};

}  // namespace farside::comm
