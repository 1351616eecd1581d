#include "farside/comm/rendezvous.h"

#include <optional>
#include <string>
#include <utility>

#include "farside/base/error.h"

#include "comm/protocol/match_table.h"

namespace farside::comm {

namespace {

MatchTable::Ticket inner(const Rendezvous::Ticket& ticket) {
  return {ticket.offers ? MatchTable::End::source : MatchTable::End::destination, ticket.peer, ticket.key,
          ticket.before};
}

constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 40U;  // whose bytes can be counted

std::uint64_t checked(std::uint64_t keys, team::Rank ranks) {
  if (keys == 0) throw UsageError({"make a rendezvous with", "0 keys", "nothing could meet", "have at least one"});
  if (keys > kMaxEntries / ranks) {
    throw UsageError({"make a rendezvous with", std::to_string(keys) + " keys",
                      "they take 80 bytes of each rank for each of " + std::to_string(ranks) + " ranks", "use fewer"});
  }
  return keys;
}

}  // namespace

class Rendezvous::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Comm& through, const std::vector<const team::SymmetricRegion*>& known, std::uint64_t keys_each)
      : comm(through),
        regions(known),
        keys(checked(keys_each, comm.team().size())),
        table(comm.team(), comm.next_name("rendezvous"), known, keys) {}

  Ticket begin(Channel& channel, bool offers, team::Rank peer, std::uint64_t key, const Place& place) {
    const auto refuse = [&](const std::string& why) {
      throw UsageError(
          {offers ? "offer" : "claim", "key " + std::to_string(key) + " with rank " + std::to_string(peer), why, ""});
    };
    if (peer >= comm.team().size()) refuse("there are " + std::to_string(comm.team().size()) + " ranks");
    if (key >= keys) refuse("there are " + std::to_string(keys) + " keys");
    if (place.region >= regions.size()) refuse("there are " + std::to_string(regions.size()) + " regions");
    (void)regions[place.region]->local().span(place.offset, place.bytes);  // throws when it is out of range
    const auto end = offers ? MatchTable::End::source : MatchTable::End::destination;
    const std::optional<MatchTable::Ticket> opened = table.open(end, peer, key);
    if (!opened) refuse("its last use has not ended");
    const Request request = meet(channel, *opened, {place.region, place.offset, place.bytes});
    return {offers, peer, key, opened->before, request};
  }

  Comm& comm;
  const std::vector<const team::SymmetricRegion*> regions;
  const std::uint64_t keys;
  MatchTable table;

 private:
  // Here and now where that costs little, else in the background: as the copies of Comm.
  Request meet(Channel& channel, const MatchTable::Ticket& ticket, const MatchPlace& place) {
    channel.local_fence();  // what this thread has stored there, for the end that copies it
    const bool at_once = place.bytes <= Comm::kInlineBytes && comm.team().fabric().reaches_by_memory(ticket.peer);
    return comm.act(channel, at_once, [self = shared_from_this(), ticket, place](Channel& by, Deadline deadline) {
      return status_with(self->table.meet(by, ticket, place, deadline), ticket.peer);
    });
  }
};

Rendezvous::Rendezvous(Comm& comm, const std::vector<const team::SymmetricRegion*>& regions, std::uint64_t keys)
    : impl_(std::make_shared<Impl>(comm, regions, keys)) {}

Rendezvous::Ticket Rendezvous::offer(Channel& channel, std::uint64_t key, team::Rank destination, const Place& source) {
  return impl_->begin(channel, true, destination, key, source);
}

Rendezvous::Ticket Rendezvous::claim(Channel& channel, std::uint64_t key, team::Rank source, const Place& destination) {
  return impl_->begin(channel, false, source, key, destination);
}

bool Rendezvous::ended(const Ticket& ticket) const {
  return impl_->table.state(inner(ticket)) != MatchTable::State::open;
}

Rendezvous::Copied Rendezvous::wait(Channel& channel, const Ticket& ticket, Deadline deadline) const {
  // First this end's work on the service thread, and then the other end.
  if (!ended(ticket)) impl_->comm.check_may_wait("the other end of a rendezvous");
  const Status begun = impl_->comm.wait(channel, ticket.request, deadline);
  if (!begun.done()) return {begun, false};
  const Outcome waited = impl_->table.wait(channel, inner(ticket), deadline);
  return {status_with(waited, ticket.peer),
          waited == Outcome::done && impl_->table.state(inner(ticket)) == MatchTable::State::did_not_fit};
}

bool Rendezvous::withdraw(Channel& channel, const Ticket& ticket, Deadline deadline) {
  if (!impl_->comm.wait(channel, ticket.request, deadline).done()) return false;
  return impl_->table.withdraw(channel, inner(ticket), deadline);
}

}  // namespace farside::comm
