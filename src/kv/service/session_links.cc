#include "kv/service/session_links.h"

#include <algorithm>
#include <future>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

using net::SetupClock;

namespace {

// A region of no process: operations that are posted there fail.
std::unique_ptr<RemoteRegion> nowhere(PeerId peer, std::uint64_t bytes) {
  return std::make_unique<RemoteRegion>("a server that is gone", peer, bytes, nullptr, nullptr);
}

}  // namespace

SessionLinks::SessionLinks(Fabric& fabric, PoolLinks links, Waking waking, SetupClock::time_point deadline)
    : fabric_(fabric), links_(std::move(links)), waking_(waking) {
  const std::uint64_t ring_bytes = shape().ring_bytes();
  std::vector<std::shared_ptr<ServerLink>> seats(links_.partitions.size() * (have_standbys() ? 2 : 1));
  for (ServerNumber partition = 0; partition < partitions(); ++partition) {
    const auto& [primary, standby, seat] = links_.partitions[partition];
    seats[number_of(partition, seat)] = primary;
    if (have_standbys()) seats[number_of(partition, 1 - seat)] = standby;
  }
  rings_ = fabric.create_region("kv replies", seats.size() * ring_bytes);
  nowhere_ = nowhere(static_cast<PeerId>(seats.size()), ring_bytes);
  for (const auto& link : seats) {
    Seat& seat = seats_.emplace_back();
    seat.link = link;
    seat.mailbox.end = {.own = rings_.get(),
                        .own_offset = (seats_.size() - 1) * ring_bytes,
                        .other = nowhere_.get(),
                        .other_offset = 0,
                        .bell = nowhere_->word<AtomicWord>(0)};
  }
  open_mailboxes(deadline);
  for (const PartitionLinks& each : links_.partitions) memories_.push_back(memory_of(each.primary));
}

// At all servers at once: one that hangs keeps nothing else waiting than the session itself.
void SessionLinks::open_mailboxes(SetupClock::time_point deadline) {
  std::vector<std::future<ServerLink::Mailbox>> opening;
  for (const Seat& seat : seats_) {
    opening.push_back(seat.link == nullptr ? std::future<ServerLink::Mailbox>() : std::async(std::launch::async, [&] {
      return seat.link->open(*rings_, seat.mailbox.end.own_offset, waking_, deadline);
    }));
  }
  std::optional<Error> failed;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (!opening[i].valid()) continue;
    try {
      seats_[i].mailbox = opening[i].get();
    } catch (const Error& error) {
      seats_[i].link = nullptr;
      PartitionLinks& links = links_.partitions[i % partitions()];
      (i / partitions() == links.seat ? links.primary : links.standby) = nullptr;
      if (links_.are_all_needed || links_.needed.at(i % links_.needed.size())) failed = error;
    }
  }
  if (failed) throw Error(*failed);
}

ServerMemory SessionLinks::memory_of(const std::shared_ptr<ServerLink>& link) const {
  return link == nullptr ? ServerMemory{nowhere_.get(), 0, 1} : link->memory();
}

bool SessionLinks::is_lost(ServerNumber partition) const {
  const auto is_up = [](const std::shared_ptr<ServerLink>& link) {
    return link != nullptr && !link->lost() && (link->serves_since() || !link->gave_up());
  };
  const auto& [primary, standby, seat] = links_.partitions[partition];
  return !is_up(primary) && !is_up(standby);
}

bool SessionLinks::has_lost_any() const {
  const auto is_cut = [](const std::shared_ptr<ServerLink>& link) { return link != nullptr && link->lost(); };
  return std::ranges::any_of(links_.partitions, [&](const PartitionLinks& each) {
    return each.primary == nullptr || is_cut(each.primary) || is_cut(each.standby);
  });
}

SessionLinks::~SessionLinks() {
  for (const Seat& seat : seats_) {
    if (seat.link != nullptr) seat.link->close(seat.mailbox.number);
  }
}

std::vector<MailboxEnd> SessionLinks::ends() const {
  std::vector<MailboxEnd> ends;
  for (const Seat& seat : seats_) ends.push_back(seat.mailbox.end);
  return ends;
}

Homes::Primary SessionLinks::server_of(const std::shared_ptr<ServerLink>& link, ServerNumber partition,
                                       unsigned seat) const {
  Homes::Primary server{.memory = memory_of(link), .peer = partition, .seat = seat};
  if (link == nullptr) return server;
  server.peer = link->peer();
  server.epoch = link->serves_since().value_or(0);
  server.alone = link->alone();
  return server;
}

Homes::Standby SessionLinks::standby_of(const std::shared_ptr<ServerLink>& link, ServerNumber partition,
                                        unsigned seat) const {
  return {.promoted = server_of(link, partition, seat),
          .told = link->told(),
          .epoch_when_asked = link->epoch_when_joined(),
          .identity = link->identity(),
          .epoch = link->epoch()};
}

std::unique_ptr<Homes> SessionLinks::homes(Fabric& fabric, Channel& channel, MailboxRequests& seats) {
  assert_that(have_standbys(), "without standbys a partition has one server for good");
  std::vector<Homes::Home> homes;
  for (ServerNumber partition = 0; partition < partitions(); ++partition) {
    const auto& [primary, standby, seat] = links_.partitions[partition];
    Homes::Home& home = homes.emplace_back();
    home.primary = server_of(primary, partition, seat);
    if (standby != nullptr) home.standby = standby_of(standby, partition, 1 - seat);
    if (primary != nullptr && primary->welcome().hello.remote_peers) home.lease = kLease;
  }
  auto made = std::make_unique<Homes>(fabric, channel, std::move(homes), [this, &channel, &seats](ServerNumber each) {
    return how_is_standby(each, channel, seats);
  });
  homes_ = made.get();
  return made;
}

// Asked after whatever came from the primary, which says by a word which standby it has: this process may not know yet
// that the one that it has joined is gone, and that another one, which does not know this process, has been promoted.
Homes::StandbyIs SessionLinks::how_is_standby(ServerNumber partition, Channel& channel, MailboxRequests& seats) {
  follow_moves(partition);
  const auto& [primary, standby, seat] = links_.partitions[partition];
  if (primary == nullptr) return Homes::StandbyIs::gone;
  const bool is_joined = standby != nullptr && !standby->lost();
  const Duration slice = is_joined ? time_limits::kFirstSlice : time_limits::kAskStanding;
  const Result<std::uint64_t> named = channel.load(primary->alone(), fabric_.in(slice));
  if (named.done() && named.value == ServerLink::kIsAlone) return Homes::StandbyIs::gone;
  if (is_joined && named.done() && named.value == standby->identity()) return Homes::StandbyIs::joined;
  if (is_joined && !named.done()) {
    const bool gave_up = primary->lost() && standby->ask_whether_gave_up(channel);
    return gave_up ? Homes::StandbyIs::gone : Homes::StandbyIs::joining;
  }
  if (homes_ == nullptr) return Homes::StandbyIs::away;
  const auto [another, was_tried] = links_.renew(partition, 1 - seat, named.done() ? named.value : 0);
  if (another == nullptr) return was_tried ? Homes::StandbyIs::away : Homes::StandbyIs::joining;
  // Whether the primary still names it, and did not only say so before, shows the next time.
  return take_standby(partition, another, channel, seats) ? Homes::StandbyIs::joining : Homes::StandbyIs::away;
}

void SessionLinks::follow_moves(ServerNumber partition) {
  PartitionLinks& links = links_.partitions[partition];
  if (homes_ == nullptr || homes_->seat(partition) == links.seat) return;
  links.seat = homes_->seat(partition);
  links.primary = std::exchange(links.standby, nullptr);
}

// A channel reports once what it lost with the former process in that seat: now, and not of this one.
bool SessionLinks::take_standby(ServerNumber partition, const std::shared_ptr<ServerLink>& link, Channel& channel,
                                MailboxRequests& seats) {
  PartitionLinks& links = links_.partitions[partition];
  const unsigned seat = 1 - links.seat;
  for (int i = 0; i < 2; ++i) (void)channel.flush(link->peer(), fabric_.in(time_limits::kReplySlice));
  try {
    auto ring = fabric_.create_region("kv replies of a standby", shape().ring_bytes());
    auto mailbox = link->open(*ring, 0, waking_, SetupClock::now() + time_limits::kTry);
    seats.replace(number_of(partition, seat), mailbox.end);
    seats_[number_of(partition, seat)] = {link, std::move(mailbox), std::move(ring)};
  } catch (const Error& error) {
    log::debug(error.what());
    return false;
  }
  links.standby = link;
  homes_->set_standby(partition, standby_of(link, partition, seat));
  return true;
}

namespace {

SessionStack stack_over(SessionLinks& links, Fabric& fabric, const SessionSettings& settings, Waking waking) {
  auto channel = fabric.open_channel();
  auto seats = std::make_unique<MailboxRequests>(fabric, *channel, links.ends(), links.shape(), waking);
  if (!links.have_standbys()) return {fabric, std::move(channel), std::move(seats), links.memories(), settings};
  auto homes = links.homes(fabric, *channel, *seats);
  return {fabric, std::move(channel), std::move(seats), std::move(homes), settings};
}

}  // namespace

LinkedSession::LinkedSession(Fabric& fabric, PoolLinks to, const SessionSettings& settings, Waking waking,
                             SetupClock::time_point deadline)
    : links(fabric, std::move(to), waking, deadline), stack(stack_over(links, fabric, settings, waking)) {}

std::optional<std::uint32_t> ServiceSession::lost_server_of(std::string_view key) const {
  const ServerNumber server = server_of(key);
  return links.is_lost(server) ? std::optional<std::uint32_t>(server) : std::nullopt;
}

}  // namespace farside::kv
