#include "comm/group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "comm/status.h"
#include "comm/thrown.h"
#include "comm/time_limits.h"

namespace farside::comm {

using team::Rank;

std::vector<Rank> all_ranks(const team::Team& team) {
  std::vector<Rank> ranks(team.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void check_rank(const team::Team& team, Rank rank, const std::string& tried) {
  if (rank < team.size()) return;
  throw UsageError({tried, "rank " + std::to_string(rank), "there are " + std::to_string(team.size()) + " ranks",
                    "count them from 0"});
}

std::vector<Rank> ranks_or_all(const team::Team& team, std::vector<Rank> ranks, const std::string& tried) {
  for (const Rank rank : ranks) check_rank(team, rank, tried);
  return ranks.empty() ? all_ranks(team) : std::move(ranks);
}

Group::Group(Comm& comm, std::vector<Rank> members, const std::string& what, std::uint64_t payload_bytes)
    : comm_(comm),
      meeting_(comm.team(), ranks_or_all(comm.team(), std::move(members), "form a group with"), comm.next_name(what),
               payload_bytes),
      all_near_(std::ranges::all_of(meeting_.members(),
                                    [&](Rank rank) { return comm.team().fabric().reaches_by_memory(rank); })) {
  meeting_.on_unflushed([this](std::uint64_t number, Outcome flushed) {
    Status status = status_among(comm_.team(), all_ranks(comm_.team()), flushed);
    status.outside = true;
    const MutexLock lock(failures_mutex_);
    unflushed_.add(number, status);
  });
}

Status Group::named(Outcome outcome) const { return status_among(comm_.team(), members(), outcome); }

Status Group::arrived(std::uint64_t number, Outcome outcome) {
  const Status status = named(outcome);
  if (status.done()) return status;
  const MutexLock lock(failures_mutex_);
  absences_.add(number, status);
  return status;
}

Status Group::unflushed(std::uint64_t number) const {
  const MutexLock lock(failures_mutex_);
  return unflushed_.first_of({number, number});
}

Result<std::uint64_t> Group::open(Channel& channel, Deadline deadline) {
  if (!comm_.on_service_thread()) return meeting_.open(channel, deadline);
  const Result<std::uint64_t> opened = meeting_.open(channel, comm_.team().fabric().in({}));
  if (opened.status == Outcome::timed_out) comm_.check_may_wait("a meeting of ranks");
  return opened;
}

Barrier::Begun Group::attend_later(Channel& channel, std::uint64_t number, Comm::Task task, Deadline deadline) {
  // This thread's writes go by its own channel, the rest by that of the service thread.
  const Outcome flushed = meeting_.flush(channel, number, deadline);
  if (flushed != Outcome::done) return {arrived(number, flushed), number};
  last_issued_ = comm_.in_background(channel, std::move(task)).last;
  return {Status{}, number};
}

Status Group::wait(Channel& channel, std::uint64_t number, Deadline deadline) {
  assert_that(number != 0, "a meeting that is waited for has begun");
  const auto absence = [&] {
    const MutexLock lock(failures_mutex_);
    return absences_.first_of({number, number});
  };
  if (!meeting_.ended(number)) comm_.check_may_wait("a meeting of ranks");
  for (;;) {
    // As long as this member's own arrival is in the background it may fail, which wakes no wait for the meeting.
    Deadline until = deadline;
    if (!comm_.finished({last_issued_, last_issued_})) {
      until.at = std::min(deadline.at, comm_.team().fabric().in(comm::time_limits::kAbsenceLook).at);
    }
    if (const Status absent = absence(); !absent.done()) return absent;
    const Status status = named(meeting_.wait(channel, number, until));
    if (status.outcome == Outcome::timed_out && until.at < deadline.at) continue;
    if (status.done()) return status;
    const Status absent = absence();
    return absent.done() ? status : absent;
  }
}

// A call on the service thread cannot wait for that thread; the work in the background keeps what it uses.
void Group::settle() const {
  if (comm_.on_service_thread()) return;
  const Request last{last_issued_, last_issued_};
  if (last_issued_ == 0 || comm_.finished(last)) return;
  const Deadline deadline = comm_.team().fabric().in(comm::time_limits::kGroupEnd);
  (void)thrown_by([&] { (void)comm_.wait(*comm_.open_channel(), last, deadline); });  // how it ended, its own wait says
}

}  // namespace farside::comm
