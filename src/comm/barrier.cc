#include "farside/comm/barrier.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/protocol/meeting.h"

namespace farside {

namespace {

std::vector<Rank> all_ranks(const Team& team) {
  std::vector<Rank> ranks(team.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

class Barrier::Impl {
 public:
  Impl(Comm& through, std::vector<Rank> members)
      : comm(through),
        meeting(comm.team(), members.empty() ? all_ranks(comm.team()) : std::move(members), comm.next_name("barrier")) {
  }

  [[nodiscard]] Ended named(Outcome outcome) const {
    if (outcome != Outcome::peer_lost) return {outcome, {}};
    const auto lost = std::ranges::find_if(meeting.members(), [this](Rank rank) { return !comm.team().alive(rank); });
    return {outcome, lost == meeting.members().end() ? std::nullopt : std::optional(*lost)};
  }

  Comm& comm;
  Meeting meeting;
};

Barrier::Barrier(Comm& comm, std::vector<Rank> members) : impl_(std::make_shared<Impl>(comm, std::move(members))) {}
Barrier::~Barrier() = default;

Barrier::Begun Barrier::begin(Channel& channel, Deadline deadline) {
  const std::shared_ptr<Impl> self = impl_;  // kept by what is left to the service thread: a death may leave it there
  const Fetched opened = self->meeting.open(channel, deadline);
  if (!opened.done()) return {self->named(opened.outcome), 0};
  const std::uint64_t number = opened.value;
  const auto near = [&self](Rank rank) { return self->comm.may_act_at_once(rank); };
  if (std::ranges::all_of(self->meeting.members(), near)) {
    return {self->named(self->meeting.arrive(channel, number, deadline)), number};
  }
  // What this thread wrote goes by its own channel, the rest by that of the service thread.
  if (const Outcome flushed = channel.flush_all(deadline); flushed != Outcome::done)
    return {self->named(flushed), number};
  self->comm.in_background(channel, [self, number](Channel& by, Deadline until) {
    return self->named(self->meeting.arrive(by, number, until));
  });
  return {Ended{}, number};
}

bool Barrier::ended(std::uint64_t number) const { return impl_->meeting.ended(number); }

Ended Barrier::wait(Channel& channel, std::uint64_t number, Deadline deadline) const {
  return impl_->named(impl_->meeting.wait(channel, number, deadline));
}

Ended Barrier::pass(Channel& channel, Deadline deadline) {
  const Begun begun = begin(channel, deadline);
  return begun.ended.done() ? wait(channel, begun.number, deadline) : begun.ended;
}

}  // namespace farside
