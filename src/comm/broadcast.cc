#include "farside/comm/broadcast.h"

#include <algorithm>
#include <utility>

#include "comm/carry.h"
#include "comm/group.h"

namespace farside {

namespace {

struct Receiver {
  RemoteWord<ControlWord> discards;
  RemoteSpan to;
  RemoteWord<ControlWord> flag;
};

Ended send_to_all(Channel& channel, const std::vector<Receiver>& receivers, RemoteSpan from, std::uint64_t value,
                  Deadline deadline) {
  Ended worst;
  const auto note = [&worst](Outcome outcome, Rank rank) {
    if (worst.done()) worst = ended_with(outcome, rank);
  };
  std::vector<RemoteSpan> to;
  std::vector<RemoteWord<ControlWord>> flags;
  for (const Receiver& receiver : receivers) {
    const Fetched discards = channel.load(receiver.discards, deadline);
    note(discards.outcome, receiver.to.region->peer());
    if (!discards.done() || discards.value != 0) continue;
    to.push_back(receiver.to);
    flags.push_back(receiver.flag);
  }
  const Ended carried = carry(channel, to, from, deadline);
  if (carried.outcome == Outcome::timed_out || carried.lost == from.region->peer())
    return carried;  // nobody has it all
  if (worst.done()) worst = carried;
  for (const auto& flag : flags) note(channel.write_signal(flag, value, deadline), flag.region->peer());
  for (const auto& flag : flags) note(channel.flush(flag.region->peer(), deadline), flag.region->peer());
  return worst;
}

}  // namespace

Broadcast::Broadcast(Comm& comm, std::vector<Rank> members)
    : comm_(comm),
      members_(members.empty() ? all_ranks(comm.team()) : std::move(members)),
      discards_(comm.team().allocate(comm.next_name("discards"), 8)) {}

Request Broadcast::send(Channel& channel, const SymmetricRegion& memory, std::uint64_t offset, RemoteSpan from,
                        Signal signal) {
  std::vector<Receiver> receivers;
  const Fabric& fabric = comm_.team().fabric();
  bool near = from.bytes * members_.size() <= Comm::kInlineBytes && fabric.reaches_by_memory(from.region->peer());
  for (const Rank rank : members_) {
    const RemoteRegion& there = memory.of(rank);
    receivers.push_back({discards_->of(rank).word<ControlWord>(0), there.span(offset, from.bytes),
                         there.word<ControlWord>(signal.offset)});
    near = near && fabric.reaches_by_memory(rank);
  }
  auto task = [discards = discards_, receivers = std::move(receivers), from, signal](Channel& by, Deadline deadline) {
    return send_to_all(by, receivers, from, signal.value, deadline);
  };
  return comm_.act(channel, near, std::move(task));
}

void Broadcast::discard(bool on) { discards_->local().word<ControlWord>(0).store(on ? 1 : 0); }

}  // namespace farside
