// Requests to whichever of a partition's two servers serves it (src/kv/client/homed_requests.h), through mailboxes,
// by a clock that nothing but waiting moves. A reply is the name of who gives it and what was asked.
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kv/client/atomic_reader.h"
#include "kv/client/homed_requests.h"
#include "kv/mailbox/served_mailbox.h"
#include "sim/world.h"

namespace farside::sim {
namespace {

using team::Rank;

using namespace std::chrono_literals;
using kv::Homes;
using kv::MailboxEnd;
using kv::MailboxShape;
using kv::Message;
using Texts = std::vector<std::string>;

constexpr Rank kPrimary = 0;  // servers' ranks are their seats
constexpr Rank kStandby = 1;
constexpr Rank kSession = 2;
constexpr std::uint64_t kEpoch = 0;  // where the words are, in each process's region
constexpr std::uint64_t kAlone = 64;
constexpr MailboxShape kShape{.slots = 2, .slot_bytes = 64};  // pieces of 32 bytes
constexpr std::array<const char*, 2> kNames{"primary ", "standby "};

struct Server {
  bool stands_still = false;
  bool says_nothing = false;  ///< but takes what comes
  Texts asked{};
};

std::string text_of(std::span<const std::byte> message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}
Message message_of(const std::string& text) {
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

  Outcome send(const std::string& text, Duration patience = 1min) const {
    return requests.send(0, message_of(text), fabric.in(patience));
  }
  /// The reply, or why there is none.
  [[nodiscard]] std::string receive(Duration patience = 1min) const {
    const auto reply = requests.receive(0, fabric.in(patience));
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
    if (rank == kPrimary && shape_.is_alone) words->local().word<ControlWord>(kAlone).store(1);
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

  void serve(Rank seat, Channel& channel, const team::SymmetricRegion& rings) {
    Fabric& fabric = world_.fabric(seat);
    Server& me = servers_.at(seat);
    kv::ServedMailbox mailbox(fabric, channel, end(rings, kSession, seat), kShape, kv::Waking::polled);
    for (; !is_over_; fabric.sleep(20us)) {
      if (me.stands_still || mailbox.poll() != kv::ServedMailbox::Came::request) continue;
      me.asked.push_back(text_of(mailbox.request()));
      if (!me.says_nothing) mailbox.reply(message_of(kNames.at(seat) + me.asked.back()));
    }
  }

  void ask(Channel& channel, const team::SymmetricRegion& words, const team::SymmetricRegion& rings) {
    Fabric& fabric = world_.fabric(kSession);
    Homes::Home home{.primary = {},
                     .standby = {},
                     .primary_peer = kPrimary,
                     .epoch_when_asked = shape_.has_moved ? 1U : 0U,
                     .epoch = words.local().word<ControlWord>(kEpoch)};
    if (shape_.is_between_hosts) {
      home.lease_source = Homes::LeaseSource{words.of(kStandby).word<ControlWord>(kEpoch),
                                             words.of(kPrimary).word<ControlWord>(kAlone)};
    }
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

// ---- Who is asked

TEST(KvHomedRequests, GoToThePrimaryUntilTheStandbyServes) {
  PartitionRun({}, [](Side& side) {
    ASSERT_EQ(side.send("a"), Outcome::done);
    EXPECT_EQ(side.receive(), "primary a");
    side.move();
    ASSERT_EQ(side.send("b"), Outcome::done);
    EXPECT_EQ(side.receive(), "standby b");
    EXPECT_EQ(side.servers[kStandby].asked, Texts{"b"});  // and not again what was answered
  });
}

TEST(KvHomedRequests, GoToAStandbyThatServedBefore) {
  PartitionRun({.has_moved = true}, [](Side& side) {
    ASSERT_EQ(side.send("a"), Outcome::done);
    EXPECT_EQ(side.receive(), "standby a");
    EXPECT_EQ(side.servers[kPrimary].asked, Texts{});
  });
}

TEST(KvHomedRequests, AreAskedOfTheStandbyInTheirOrderWhenThePrimaryHasNotAnsweredThem) {
  PartitionRun({}, [](Side& side) {
    side.servers[kPrimary].says_nothing = true;
    ASSERT_EQ(side.send("a"), Outcome::done);
    ASSERT_EQ(side.send("b"), Outcome::done);
    side.move();
    ASSERT_EQ(side.send("c"), Outcome::done);
    EXPECT_EQ(side.receive_all(3), (Texts{"standby a", "standby b", "standby c"}));
    EXPECT_EQ(side.servers[kStandby].asked, (Texts{"a", "b", "c"}));
  });
}

// The primary may have said so when the standby had served others for long.
TEST(KvHomedRequests, DoNotTakeWhatThePrimarySaidOnceTheStandbyServes) {
  PartitionRun({}, [](Side& side) {
    ASSERT_EQ(side.send("a"), Outcome::done);
    side.wait();
    EXPECT_EQ(side.servers[kPrimary].asked, Texts{"a"});
    side.move();
    EXPECT_EQ(side.receive(), "standby a");
  });
}

// ---- Waiting

TEST(KvHomedRequests, LookAwayFromAPrimaryThatSaysNothing) {
  PartitionRun({}, [](Side& side) {
    side.servers[kPrimary].stands_still = true;
    ASSERT_EQ(side.send("a"), Outcome::done);
    side.move_after(100ms);
    EXPECT_LT(side.took([&] { EXPECT_EQ(side.receive(), "standby a"); }), 200ms);
  });
}

// No server can tell the session, so the session asks.
TEST(KvHomedRequests, HearBetweenHostsThatTheStandbyServes) {
  PartitionRun({.is_between_hosts = true, .serves = true}, [](Side& side) {
    side.servers[kPrimary].stands_still = true;
    ASSERT_EQ(side.send("a"), Outcome::done);
    EXPECT_LT(side.took([&] { EXPECT_EQ(side.receive(), "standby a"); }), 300ms);
  });
}

// There is no room for a third one, and there will be none.
TEST(KvHomedRequests, AreNotStuckWithAPrimaryThatTakesNothing) {
  PartitionRun({.is_between_hosts = true, .serves = true}, [](Side& side) {
    side.servers[kPrimary].stands_still = true;
    ASSERT_EQ(side.send("a"), Outcome::done);
    ASSERT_EQ(side.send("b"), Outcome::done);
    EXPECT_LT(side.took([&] { ASSERT_EQ(side.send("c"), Outcome::done); }), 1s);
    EXPECT_EQ(side.receive_all(3), (Texts{"standby a", "standby b", "standby c"}));
  });
}

TEST(KvHomedRequests, EndByTheirDeadlines) {
  for (const bool is_between_hosts : {false, true}) {
    PartitionRun({.is_between_hosts = is_between_hosts}, [](Side& side) {
      side.servers[kPrimary].stands_still = true;
      ASSERT_EQ(side.send("a"), Outcome::done);
      ASSERT_EQ(side.send("b"), Outcome::done);
      EXPECT_LT(side.took([&] { ASSERT_EQ(side.send("c", 3s), Outcome::timed_out); }), 3100ms);
      EXPECT_LT(side.took([&] { EXPECT_EQ(side.receive(3s), "timed out"); }), 3100ms);
    });
  }
}

// A reply that comes too late is dropped, and what was given up is not asked of the standby.
TEST(KvHomedRequests, AreOverWhenTheyTimedOut) {
  PartitionRun({}, [](Side& side) {
    side.servers[kPrimary].stands_still = true;
    ASSERT_EQ(side.send("a"), Outcome::done);
    EXPECT_EQ(side.receive(10ms), "timed out");
    side.servers[kPrimary].stands_still = false;
    ASSERT_EQ(side.send("b"), Outcome::done);
    EXPECT_EQ(side.receive(), "primary b");
    side.servers[kPrimary].stands_still = true;
    ASSERT_EQ(side.send("c"), Outcome::done);
    EXPECT_EQ(side.receive(10ms), "timed out");
    ASSERT_EQ(side.send("d"), Outcome::done);
    side.move();
    EXPECT_EQ(side.receive(), "standby d");
    EXPECT_EQ(side.servers[kStandby].asked, Texts{"d"});
  });
}

// ---- A primary that is lost

TEST(KvHomedRequests, WaitForTheStandbyOfAPrimaryThatIsLost) {
  PartitionRun({}, [](Side& side) {
    side.servers[kPrimary].says_nothing = true;
    ASSERT_EQ(side.send("a"), Outcome::done);
    side.lose(kPrimary);
    side.move_after(50ms);
    EXPECT_EQ(side.receive(), "standby a");
  });
  PartitionRun({}, [](Side& side) {
    side.lose(kPrimary);
    side.move_after(50ms);
    ASSERT_EQ(side.send("a"), Outcome::done);
    EXPECT_EQ(side.receive(), "standby a");
  });
}

TEST(KvHomedRequests, DoNotWaitForAStandbyThatIsGone) {
  PartitionRun({}, [](Side& side) {
    side.servers[kPrimary].says_nothing = true;
    ASSERT_EQ(side.send("a"), Outcome::done);
    side.standby_is = Homes::StandbyIs::gone;
    side.lose(kPrimary);
    EXPECT_LT(side.took([&] { EXPECT_EQ(side.receive(), "peer lost"); }), 100ms);
    EXPECT_LT(side.took([&] { ASSERT_EQ(side.send("b"), Outcome::peer_lost); }), 100ms);
  });
}

// ---- Leases

// What the primary said is not taken while its standby, which is not reached, may serve.
TEST(KvHomedRequests, DoNotTakeWhatCameWithoutALease) {
  PartitionRun({.is_between_hosts = true}, [](Side& side) {
    side.world.wires().cut(kSession, kStandby);
    ASSERT_EQ(side.send("a"), Outcome::done);
    EXPECT_LT(side.took([&] { EXPECT_EQ(side.receive(3s), "peer lost"); }), 3100ms);
    EXPECT_EQ(side.servers[kPrimary].asked, Texts{"a"});
  });
}

TEST(KvHomedRequests, TakeItWhenThePrimaryNeedsNoLease) {
  PartitionRun({.is_between_hosts = true, .is_alone = true}, [](Side& side) {
    side.world.wires().cut(kSession, kStandby);
    ASSERT_EQ(side.send("a"), Outcome::done);
    EXPECT_EQ(side.receive(3s), "primary a");
  });
}

TEST(KvHomedRequests, TakeItWhenTheStandbyIsReachedAgain) {
  PartitionRun({.is_between_hosts = true}, [](Side& side) {
    side.world.wires().stall(kSession, kStandby, 1s);
    ASSERT_EQ(side.send("a"), Outcome::done);
    EXPECT_EQ(side.receive(10s), "primary a");
  });
}

// ---- What can be received

TEST(KvHomedRequests, TellWhetherThereIsAReply) {
  PartitionRun({}, [](Side& side) {
    EXPECT_FALSE(side.requests.has_reply(0));
    ASSERT_EQ(side.send("a"), Outcome::done);
    side.wait();
    EXPECT_TRUE(side.requests.has_reply(0));
    side.lose(kPrimary);
    EXPECT_FALSE(side.requests.has_reply(0));  // the standby will be asked
    side.move();
    EXPECT_FALSE(side.requests.has_reply(0));
    side.wait();
    EXPECT_TRUE(side.requests.has_reply(0));
    EXPECT_EQ(side.receive(0ms), "standby a");
  });
}

// The second one goes in pieces, which the standby does not take for a while.
TEST(KvHomedRequests, HaveNoReplyWhenTheyDidNotReachTheStandby) {
  PartitionRun({}, [](Side& side) {
    ASSERT_EQ(side.send("a"), Outcome::done);
    ASSERT_EQ(side.send(std::string(70, 'l')), Outcome::done);
    side.servers[kStandby].stands_still = true;
    side.move();
    EXPECT_FALSE(side.requests.has_reply(0));  // now they are sent
    side.servers[kStandby].stands_still = false;
    EXPECT_EQ(side.receive(), "standby a");
    EXPECT_TRUE(side.requests.has_reply(0));
    EXPECT_EQ(side.receive(), "timed out");
    ASSERT_EQ(side.send("b"), Outcome::done);
    EXPECT_EQ(side.receive(), "standby b");
  });
}

// ---- Reading

/// Finds every key in a version that is new each time, of a transaction that may be uncommitted at another server.
class NewTransactions final : public kv::VersionSource {
 public:
  Outcome find(std::span<kv::Search* const> searches, std::span<const kv::Timestamp> candidates, Deadline) override {
    for (kv::Search* search : searches) {
      if (candidates.empty()) ++last_;
      kv::RecordHead head{};
      head.timestamp = {last_, 9};
      head.siblings_kind = kv::SiblingsKind::list;
      search->set_found({head, std::as_bytes(std::span(kSiblings)), search->key, "value"});
    }
    return Outcome::done;
  }

 private:
  static inline const std::array<kv::KeyId, 2> kSiblings{kv::key_id("read"), kv::key_id("not read")};
  std::uint64_t last_ = 0;
};

/// So many gets, each of which has its data, while the session cannot find out what became of the rest.
int failed_gets(const Side& side, int gets) {
  NewTransactions source;
  const kv::Caller caller{.session = 1};
  kv::AtomicReader reader(side.fabric, source, side.requests, caller, 2s);
  constexpr std::string_view kKey = "read";
  int failed = 0;
  for (int i = 0; i < gets; ++i) {
    if (!reader.get_all({&kKey, 1}, side.fabric.in(10s)).done()) ++failed;
  }
  return failed;
}

constexpr int kMoreThanRemembered = 5000;

// Nothing can be missing of a partition that the session never reads again.
TEST(KvHomedRequests, KeepNoGetWaitingForAPartitionThatIsLost) {
  for (const bool has_moved : {false, true}) {
    PartitionRun({.has_moved = has_moved}, [&](Side& side) {
      side.lose(kPrimary);
      side.lose(kStandby);
      side.standby_is = Homes::StandbyIs::away;
      EXPECT_LT(side.took([&] { EXPECT_EQ(failed_gets(side, kMoreThanRemembered), 0); }), 100ms);
    });
  }
}

// Its standby may serve some day.
TEST(KvHomedRequests, RememberWhatMayBeMissingOfAPrimaryThatIsLost) {
  PartitionRun({}, [&](Side& side) {
    side.lose(kPrimary);
    EXPECT_GT(failed_gets(side, kMoreThanRemembered), 0);
  });
}

TEST(KvHomedRequests, KeepNoGetWaitingForAPrimaryThatStandsStill) {
  PartitionRun({}, [&](Side& side) {
    side.servers[kPrimary].stands_still = true;
    EXPECT_LT(side.took([&] { EXPECT_EQ(failed_gets(side, 1000), 0); }), 100ms);
  });
}

}  // namespace
}  // namespace farside::sim
