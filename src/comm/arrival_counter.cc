#include "farside/comm/arrival_counter.h"

#include "comm/group.h"
#include "comm/protocol/arrivals.h"
#include "comm/status.h"

namespace farside::comm {

ArrivalCounter::ArrivalCounter(Comm& comm)
    : comm_(comm), arrivals_(std::make_unique<Arrivals>(comm.team(), comm.next_name("arrivals"))) {}
ArrivalCounter::~ArrivalCounter() = default;

ArrivalCounter::Arrival ArrivalCounter::at(Channel& channel, team::Rank rank, std::uint64_t epoch, Deadline deadline) {
  check_rank(comm_.team(), rank, "send to");
  const Outcome open = arrivals_->await_open(channel, rank, epoch, deadline);
  return {status_with(open, rank), {arrivals_->word(rank, epoch), 1}};
}

Status ArrivalCounter::wait(Channel& channel, std::uint64_t epoch, std::uint32_t count,
                            std::span<const team::Rank> senders, Deadline deadline) {
  for (const team::Rank sender : senders) check_rank(comm_.team(), sender, "wait for");
  return status_among(comm_.team(), senders, arrivals_->wait(channel, epoch, count, senders, deadline));
}

}  // namespace farside::comm
