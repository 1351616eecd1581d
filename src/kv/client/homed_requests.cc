#include "kv/client/homed_requests.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "kv/client/repeated.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

namespace {

constexpr std::uint64_t kSlowest = 1 << 20;  // bytes of a request that any network carries in Homes::kFirstSlice

}  // namespace

HomedRequests::HomedRequests(Fabric& fabric, Homes& homes, MailboxRequests& seats)
    : fabric_(fabric), homes_(homes), seats_(seats), partitions_(homes.partitions()) {
  assert_that(seats.servers() == 2 * partitions_.size(), "each partition has two seats");
  for (ServerNumber each = 0; each < partitions_.size(); ++each)
    partitions_[each] = {.moves = homes.moves(each), .seat = homes.seat(each)};
}

ServerNumber HomedRequests::seat(ServerNumber partition) const {
  return partitions_[partition].seat * servers() + partition;
}

Outcome HomedRequests::from_seat(ServerNumber partition, Outcome outcome) {
  bool& is_lost = partitions_[partition].is_seat_lost;
  is_lost = outcome == Outcome::peer_lost || (is_lost && outcome != Outcome::done);
  return outcome;
}

Outcome HomedRequests::send(ServerNumber partition, std::span<const std::byte> request, Deadline deadline) {
  bool is_repeated = false;
  for (Duration slice = homes_.first_slice() * (1 + request.size() / kSlowest);; slice *= 2, is_repeated = true) {
    (void)follow(partition, deadline);
    const Deadline until{std::min(deadline.at, fabric_.in(slice).at)};
    const Outcome sent = from_seat(partition, seats_.send(seat(partition), request, until));
    if (sent == Outcome::done) {
      partitions_[partition].unanswered.push_back({{request.begin(), request.end()}, is_repeated});
      return sent;
    }
    (void)homes_.is_trusted(partition, deadline);  // it may be told that it is not
    const bool may_be_tried_again = sent == Outcome::timed_out || sent == Outcome::link_lost;
    if (may_be_tried_again ? fabric_.now() >= deadline.at : !await_move(partition, deadline)) return sent;
  }
}

Result<Message> HomedRequests::receive(ServerNumber partition, Deadline deadline) {
  auto& unanswered = partitions_[partition].unanswered;
  const Came came = wait_for_reply(partition, deadline);
  const Asked asked = std::move(unanswered.front());
  unanswered.pop_front();
  if (asked.sent != Outcome::done) return {asked.sent, {}};
  // A reply that has come only now (`came` is not done) is discarded: the trust was asked for before it came.
  auto reply = seats_.receive(seat(partition), {fabric_.now()});
  if (came.outcome != Outcome::done) return {came.outcome, {}};
  if (!came.is_trusted) return {Outcome::timed_out, {}};
  if (asked.is_repeated && reply.done()) reply.value = reply_to_repeated(std::move(reply.value));
  return reply;
}

Outcome HomedRequests::await(ServerNumber partition, Deadline deadline) {
  const Came came = wait_for_reply(partition, deadline);
  const bool is_lost = came.outcome == Outcome::peer_lost && !homes_.may_move(partition);
  const bool is_there = came.outcome == Outcome::done && came.is_trusted;
  return is_lost || is_there ? Outcome::done : Outcome::timed_out;
}

HomedRequests::Came HomedRequests::wait_for_reply(ServerNumber partition, Deadline deadline) {
  const auto& unanswered = partitions_[partition].unanswered;
  assert_that(!unanswered.empty(), "a reply is waited for when a request is unanswered");
  for (;;) {
    (void)catch_up(partition, deadline);  // its mailbox at that seat may be another one soon
    if (unanswered.front().sent != Outcome::done) return {Outcome::done, true};
    const Deadline slice_end{std::min(deadline.at, fabric_.in(time_limits::kReplySlice).at)};
    const Outcome came = from_seat(partition, seats_.await(seat(partition), slice_end));
    const Time asked_until =
        came == Outcome::done ? deadline.at : std::min(deadline.at, fabric_.in(time_limits::kReplySlice).at);
    const bool is_trusted = homes_.is_trusted(partition, {asked_until});
    const bool looks = homes_.rules().looks_at_the_epoch || came != Outcome::done;
    if (looks && follow(partition, deadline)) continue;
    if ((came == Outcome::timed_out || came == Outcome::link_lost) && fabric_.now() < deadline.at) continue;
    if (came == Outcome::peer_lost && await_move(partition, deadline)) continue;
    if (came == Outcome::done && !is_trusted && fabric_.now() < deadline.at) {
      fabric_.sleep(time_limits::kLookForStandby);  // it will say whether its standby is dead, or that will serve
      continue;
    }
    return {came, is_trusted};
  }
}

bool HomedRequests::has_reply(ServerNumber partition) {
  const Partition& asked = partitions_[partition];
  if (follow(partition, fabric_.in(time_limits::kLookForStandby)) || asked.unanswered.empty()) return false;
  if (asked.unanswered.front().sent != Outcome::done) return true;
  return seats_.has_reply(seat(partition)) && !homes_.will_move(partition);
}

// The standby of a lost primary is waited for as long as it may serve this process.
bool HomedRequests::is_loss_final(ServerNumber partition) {
  const Partition& asked = partitions_[partition];
  const bool is_final = asked.is_seat_lost && asked.moves == homes_.moves(partition) && !homes_.is_moved(partition) &&
                        !homes_.may_move(partition);
  if (is_final) homes_.abandon(partition);
  return is_final;
}

bool HomedRequests::follow(ServerNumber partition, Deadline deadline) {
  homes_.follow();
  return catch_up(partition, deadline);
}

bool HomedRequests::catch_up(ServerNumber partition, Deadline deadline) {
  Partition& asked = partitions_[partition];
  if (std::exchange(asked.moves, homes_.moves(partition)) == homes_.moves(partition)) return false;
  asked.seat = homes_.seat(partition);
  asked.is_seat_lost = false;
  for (Asked& each : asked.unanswered) {
    each.is_repeated = true;
    each.sent = seats_.send(seat(partition), each.request, deadline);
  }
  return true;
}

bool HomedRequests::await_move(ServerNumber partition, Deadline deadline) {
  const auto has_moved = [&] {
    return homes_.is_moved(partition) || homes_.moves(partition) != partitions_[partition].moves;
  };
  while (!has_moved() && homes_.may_move(partition) && fabric_.now() < deadline.at) {
    fabric_.sleep(time_limits::kLookForStandby);
    (void)homes_.is_trusted(partition, deadline);
  }
  return has_moved();
}

}  // namespace farside::kv
