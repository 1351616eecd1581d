// kv_homed_world.h — a session and the two servers of a partition, for tests of requests to whichever of these serves
// it (src/kv/client/homed_requests.h): through mailboxes, by a clock that nothing but waiting moves. A reply is the
// name of the server and what was asked.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kv/client/homed_requests.h"
#include "kv/mailbox/served_mailbox.h"
#include "kv/protocol/messages.h"
#include "sim/world.h"

namespace farside::sim::homed {

using team::Rank;

using namespace std::chrono_literals;
using kv::Homes;
using kv::MailboxEnd;
using kv::MailboxShape;
using kv::Message;
using Texts = std::vector<std::string>;

inline constexpr Rank kPrimary = 0;  // servers' ranks are their seats
inline constexpr Rank kStandby = 1;
inline constexpr Rank kSession = 2;
inline constexpr std::uint64_t kEpoch = 0;  // where the words are, in each process's region
inline constexpr std::uint64_t kAlone = 64;
inline constexpr MailboxShape kShape{.slots = 2, .slot_bytes = 64};  // pieces of 32 bytes
inline constexpr std::array<const char*, 2> kNames{"primary ", "standby "};

struct Server {
  bool stands_still = false;
  bool says_nothing = false;  ///< but takes what comes
  bool bars = false;          ///< every put
  Texts asked{};
};

inline std::string text_of(std::span<const std::byte> message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}
inline Message message_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// The session's side of one partition.
struct Side {
  World& world;
  Fabric& fabric;
  const team::SymmetricRegion& words;
  std::array<Server, 2>& servers;
  Homes::StandbyIs& standby_is;
  kv::HomedRequests& requests;

  Outcome send(const std::string& text, Duration timeout = 1min) const {
    return requests.send(0, message_of(text), fabric.in(timeout));
  }
  /// The reply, or why there is none.
  [[nodiscard]] std::string receive(Duration timeout = 1min) const {
    const auto reply = requests.receive(0, fabric.in(timeout));
    return reply.done() ? text_of(reply.value) : std::string(to_string(reply.status));
  }
  [[nodiscard]] Texts receive_all(int count) const {
    Texts all;
    while (count-- != 0) all.push_back(receive());
    return all;
  }
  /// By the session's clock.
  [[nodiscard]] Duration took(const std::function<void()>& deed) const {
    const Time begin = fabric.now();
    deed();
    return fabric.now() - begin;
  }
  /// What has been sent is answered by then, if a server answers.
  void wait() const { fabric.sleep(10ms); }
  /// The standby has told this process that it serves.
  void move() const { words.local().word<ControlWord>(kEpoch).store(1); }
  void move_after(Duration delay) const {
    world.scheduler().after(delay, [this] { move(); });
  }
  void lose(Rank rank) const { world.fabric(kSession).mark_lost(rank); }
};

struct Shape {
  bool is_between_hosts = false;
  bool has_moved = false;  ///< before the session came
  bool is_alone = false;   ///< the primary, which says so
  bool serves = false;     ///< the standby, which says so to who asks
};

class PartitionRun {
 public:
  PartitionRun(const Shape& shape, const std::function<void(Side&)>& deed)
      : shape_(shape), deed_(deed), world_(1, 3, network()) {
    for (const Rank rank : {kPrimary, kStandby, kSession}) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    EXPECT_TRUE(world_.run(2h));
  }

 private:
  static Network network() {
    Network network;
    network.lands_late = network.answers_late = network.stalls_before_posting = network.clocks_drift = false;
    return network;
  }

  void live(Rank rank) {
    const auto words = world_.team(rank).allocate("words", 128);
    const auto rings = world_.team(rank).allocate("rings", 2 * kShape.ring_bytes());
    if (rank == kStandby || (rank == kPrimary && shape_.is_alone)) words->local().word<ControlWord>(kAlone).store(1);
    if (rank == kStandby && shape_.serves) words->local().word<ControlWord>(kEpoch).store(1);
    const auto channel = world_.fabric(rank).open_channel();
    channel->local_fence();
    if (rank != kSession) return serve(rank, *channel, *rings);
    world_.fabric(rank).sleep(1ms);
    ask(*channel, *words, *rings);
    is_over_ = true;
  }
  [[nodiscard]] static MailboxEnd end(const team::SymmetricRegion& rings, Rank other, Rank seat) {
    const std::uint64_t offset = seat * kShape.ring_bytes();
    return {.own = &rings.local(), .own_offset = offset, .other = &rings.of(other), .other_offset = offset};
  }

  static Message barred() { return kv::Reply{.kind = kv::RequestKind::put, .answer = kv::Answer::barred}.encode(); }
  void serve(Rank seat, Channel& channel, const team::SymmetricRegion& rings) {
    Fabric& fabric = world_.fabric(seat);
    Server& me = servers_.at(seat);
    kv::ServedMailbox mailbox(fabric, channel, end(rings, kSession, seat), kShape, kv::Waking::polled);
    for (; !is_over_; fabric.sleep(20us)) {
      if (me.stands_still || mailbox.poll() != kv::ServedMailbox::Came::request) continue;
      me.asked.push_back(text_of(mailbox.request()));
      if (me.says_nothing) continue;
      mailbox.reply(me.bars ? barred() : message_of(kNames.at(seat) + me.asked.back()));
    }
  }

  void ask(Channel& channel, const team::SymmetricRegion& words, const team::SymmetricRegion& rings) {
    Fabric& fabric = world_.fabric(kSession);
    Homes::Home home{.primary = {.memory = {}, .peer = kPrimary, .alone = words.of(kPrimary).word<ControlWord>(kAlone)},
                     .standby = Homes::Standby{.promoted = {.memory = {},
                                                            .peer = kStandby,
                                                            .seat = 1,
                                                            .alone = words.of(kStandby).word<ControlWord>(kAlone)},
                                               .told = words.local().word<ControlWord>(kEpoch),
                                               .epoch_when_asked = shape_.has_moved ? 1U : 0U,
                                               .epoch = words.of(kStandby).word<ControlWord>(kEpoch)}};
    if (shape_.is_between_hosts) home.lease = kv::kLease;
    auto standby_is = Homes::StandbyIs::joined;
    Homes homes(fabric, channel, {home}, [&standby_is](kv::ServerNumber) { return standby_is; });
    kv::MailboxRequests seats(fabric, channel, {end(rings, kPrimary, kPrimary), end(rings, kStandby, kStandby)}, kShape,
                              kv::Waking::polled);
    kv::HomedRequests requests(fabric, homes, seats);
    Side side{world_, fabric, words, servers_, standby_is, requests};
    deed_(side);
  }

  const Shape shape_;
  const std::function<void(Side&)> deed_;
  World world_;
  std::array<Server, 2> servers_;
  bool is_over_ = false;
};

}  // namespace farside::sim::homed
