#include "farside/comm/barrier.h"

#include <utility>

#include "farside/base/error.h"

#include "comm/group.h"

namespace farside::comm {

Barrier::Barrier(Comm& comm, std::vector<team::Rank> members)
    : group_(std::make_shared<Group>(comm, std::move(members), "barrier")) {}
Barrier::~Barrier() = default;

Barrier::Begun Barrier::begin(Channel& channel, Deadline deadline) {
  const auto attend = [&meeting = group_->meeting()](Channel& by, std::uint64_t number, Deadline until) {
    return meeting.arrive(by, number, until);
  };
  return group_->begin(channel, attend, deadline);
}

bool Barrier::ended(std::uint64_t number) const { return group_->meeting().ended(number); }

Status Barrier::wait(Channel& channel, std::uint64_t number, Deadline deadline) const {
  if (number == 0) {
    throw UsageError({"wait for", "barrier 0", "it is the number of one that did not begin", "see how it ended"});
  }
  const Status status = group_->wait(channel, number, deadline);
  return status.done() ? group_->unflushed(number) : status;
}

Status Barrier::pass(Channel& channel, Deadline deadline) {
  const Begun begun = begin(channel, deadline);
  return begun.status.done() ? wait(channel, begun.number, deadline) : begun.status;
}

}  // namespace farside::comm
