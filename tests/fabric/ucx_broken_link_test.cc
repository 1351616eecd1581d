// What the memory model keeps when a connection breaks, or a time-out closes it, and the next one takes its place.
#include <array>
#include <csignal>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/fabric/ucx_node.h"

namespace farside::test {
namespace {

/// Those that are connected: UCX aborts when one that listens is shut down.
std::set<int> sockets() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in peer{};
    socklen_t bytes = sizeof peer;
    const bool is_connected = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0;
    if (is_connected && peer.sin_family == AF_INET) found.insert(fd);
  }
  return found;
}

/// Ends connections that are not `kept`, below UCX. (Not by a reset: that can abort the peer, fabric_ucx.md.)
void break_all_but(const std::set<int>& kept) {
  for (const int fd : sockets()) {
    if (kept.contains(fd)) continue;
    ASSERT_EQ(::shutdown(fd, SHUT_RDWR), 0);
  }
}

/// A fleet of two. Member 0 has a link to member 1 that it can break, and stops and continues member 1.
struct Pair {
  Node node{1 << 16};
  std::unique_ptr<UcxChannel>
      other;  ///< its connections came after those of the engines, which are up once it has read
  pid_t target = 0;
  std::set<int> before;

  explicit Pair(Member& me) {
    node.meet(me);
    target = std::stoi(me.exchange(std::to_string(::getpid()))[1]);
    std::uint64_t value = 0;
    EXPECT_EQ(node.read(1 - me.index(), 0, &value, 8), Outcome::done);
    other = std::exchange(node.channel, node.engine->open_channel());
    me.barrier();
    if (me.index() != 0) return;
    before = sockets();
    EXPECT_EQ(node.read(1, 0, &value, 8), Outcome::done);
  }

  /// Ends what member 0's channel has connected.
  void break_link() const { break_all_but(before); }
  void go_on() const { ASSERT_EQ(::kill(target, SIGCONT), 0); }
  Outcome put(std::uint64_t offset, std::uint64_t value) { return node.write(1, offset, &value, 8); }
  Outcome notice_the_break() {
    std::uint64_t value = 0;
    return node.read(1, 0, &value, 8);
  }
  Outcome time_out() {
    std::uint64_t value = 0;
    return node.read(1, 0, &value, 8, in(50ms));
  }
  Outcome fence(Deadline deadline = default_deadline()) { return node.channel->fence(1, deadline); }
  Outcome flush(Deadline deadline = default_deadline()) { return node.channel->flush(1, deadline); }
};

template <class Act>
void on_a_pair(Act act) {
  Fleet fleet(2, [&](Member& me) {
    Pair pair(me);
    if (me.index() == 0) act(pair);
    me.barrier();
  });
  fleet.expect_success();
}

/// Member 0 of three breaks its link to member 1, and has a READ there that fails, of which it is not known for an hour
/// whether member 1 is lost.
template <class Act>
void while_a_break_is_unexplained(Act act) {
  Fleet fleet(3, [&](Member& me) {
    Node node(1 << 12);
    node.meet(me);
    std::uint64_t value = 0;
    for (const PeerId other : {0U, 1U, 2U}) {
      if (other == me.index()) continue;
      EXPECT_EQ(node.read(other, 0, &value, 8), Outcome::done);
    }
    me.barrier();
    if (me.index() == 0) {
      node.channel = node.engine->open_channel();
      node.channel->set_until_explained(1h);
      EXPECT_EQ(node.read(2, 0, &value, 8), Outcome::done);
      const std::set<int> kept = sockets();
      EXPECT_EQ(node.read(1, 0, &value, 8), Outcome::done);
      break_all_but(kept);
      Completion failed;
      node.channel->post({Kind::read, node.remotes[1].get(), 0, reinterpret_cast<std::byte*>(&value), 8, 0, 0}, failed);
      act(node, failed);
    }
    me.barrier();
  });
  fleet.expect_success();
}

// Whether the peer is lost is found out without a wait of anything else.
TEST(UcxBrokenLink, HoldsUpNoOtherPeer) {
  while_a_break_is_unexplained([](Node& node, Completion& failed) {
    std::uint64_t value = 7;
    for (int round = 0; round < 100; ++round) {
      EXPECT_EQ(node.write(2, 0, &value, 8), Outcome::done);
      EXPECT_EQ(node.channel->fence(2, default_deadline()), Outcome::done);
      EXPECT_EQ(node.channel->flush(2, default_deadline()), Outcome::done);
      EXPECT_EQ(node.read(2, 0, &value, 8), Outcome::done);
    }
    EXPECT_EQ(failed.pending, 1u);
    node.engine->mark_lost(1);
    node.channel->finish(failed, default_deadline());
    EXPECT_EQ(failed.outcome, Outcome::peer_lost);
  });
}

// The deadline of an operation holds all the same. Nothing is known of the peer by then.
TEST(UcxBrokenLink, IsToldAtTheDeadline) {
  while_a_break_is_unexplained([](Node& node, Completion& failed) {
    std::uint64_t value = 7;
    Completion later;  // goes the way of what was under way
    node.channel->post({Kind::write, node.remotes[1].get(), 0, reinterpret_cast<std::byte*>(&value), 8, 0, 0}, later);
    EXPECT_EQ(node.channel->flush(1, in(20ms)), Outcome::timed_out);
    node.channel->finish(failed, in(20ms));
    EXPECT_EQ(failed.outcome, Outcome::link_lost);
    node.channel->finish(later, in(20ms));
    EXPECT_EQ(later.outcome, Outcome::link_lost);
    EXPECT_EQ(node.channel->flush(1, default_deadline()), Outcome::link_lost);
    EXPECT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
    EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::done);
    EXPECT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
  });
}

// Data, fence, flag: where a connection that broke may have lost the data, the fence must not let the flag pass.
TEST(UcxBrokenLink, FenceReportsWritesThatItMayHaveLost) {
  on_a_pair([](Pair& pair) {
    stop(pair.target);
    ASSERT_EQ(pair.put(0, 1), Outcome::done);
    pair.break_link();
    ASSERT_EQ(pair.notice_the_break(), Outcome::link_lost);
    EXPECT_EQ(pair.fence(), Outcome::link_lost);
    EXPECT_FALSE(pair.node.engine->lost(1));
    pair.go_on();
    EXPECT_EQ(pair.flush(), Outcome::link_lost);  // too: the fence has left that to it
    EXPECT_EQ(pair.fence(), Outcome::done);
    EXPECT_EQ(pair.put(0, 2), Outcome::done);
    EXPECT_EQ(pair.fence(), Outcome::done);
    EXPECT_EQ(pair.put(8, 2), Outcome::done);
    EXPECT_EQ(pair.flush(), Outcome::done);
  });
}

TEST(UcxBrokenLink, FenceReportsWritesThatATimeOutMayHaveLost) {
  on_a_pair([](Pair& pair) {
    stop(pair.target);
    ASSERT_EQ(pair.put(0, 1), Outcome::done);
    ASSERT_EQ(pair.time_out(), Outcome::timed_out);
    EXPECT_EQ(pair.fence(), Outcome::timed_out);
    pair.go_on();
    EXPECT_EQ(pair.fence(), Outcome::done);  // what is under way from before is over
    EXPECT_EQ(pair.flush(), Outcome::timed_out);
    EXPECT_EQ(pair.flush(), Outcome::done);
  });
}

// Also when the fence had said so before it became known that the connection was broken: then the flag must not land.
TEST(UcxBrokenLink, NothingPassesAFenceThatWasDoneBefore) {
  on_a_pair([](Pair& pair) {
    stop(pair.target);
    ASSERT_EQ(pair.put(0, 1), Outcome::done);
    ASSERT_EQ(pair.fence(), Outcome::done);
    pair.break_link();
    ASSERT_EQ(pair.notice_the_break(), Outcome::link_lost);
    std::array<Completion, 2> batches;
    std::uint64_t flag = 1;
    for (Completion& batch : batches) {
      for (const std::uint64_t offset : {8, 16}) {
        pair.node.channel->post(
            {Kind::write, pair.node.remotes[1].get(), offset, reinterpret_cast<std::byte*>(&flag), 8, 0, 0}, batch);
      }
    }
    for (Completion& batch : batches) {
      pair.node.channel->finish(batch, in(50ms));
      EXPECT_EQ(batch.outcome, Outcome::link_lost);
    }
    pair.go_on();
    EXPECT_EQ(pair.flush(), Outcome::link_lost);
    EXPECT_EQ(pair.put(24, 1), Outcome::done);  // the caller knows now
    EXPECT_EQ(pair.flush(), Outcome::done);
    std::uint64_t found[4];
    ASSERT_EQ(pair.node.read(1, 0, found, sizeof found), Outcome::done);
    EXPECT_EQ(found[1] + found[2], 0u);
    EXPECT_EQ(found[3], 1u);
  });
}

// A signal flushes, but must not take from the flush what that is to report.
TEST(UcxBrokenLink, SignalsLeaveTheReportToTheFlush) {
  on_a_pair([](Pair& pair) {
    stop(pair.target);
    ASSERT_EQ(pair.put(0, 1), Outcome::done);
    ASSERT_EQ(pair.time_out(), Outcome::timed_out);
    pair.go_on();
    const std::vector<PeerId> of_two_words{1, 1};
    EXPECT_THAT(pair.node.channel->flush(of_two_words, UcxChannel::kSignal, default_deadline()),
                testing::Each(Outcome::timed_out));
    EXPECT_THAT(pair.node.channel->flush(of_two_words, UcxChannel::kSignal, default_deadline()),
                testing::Each(Outcome::done));
    EXPECT_EQ(pair.flush(), Outcome::timed_out);
    EXPECT_EQ(pair.flush(), Outcome::done);
  });
}

// An atomic that timed out may take effect at any time. When a later flush has said done, that time is over.
TEST(UcxBrokenLink, FlushWaitsForAtomicsThatTimedOut) {
  on_a_pair([](Pair& pair) {
    for (int round = 0; round < 5; ++round) {
      std::uint64_t old = 0;
      ASSERT_EQ(pair.node.run(Kind::fetch_add, 1, 0, &old, 8, default_deadline(), 1), Outcome::done);
      stop(pair.target);
      EXPECT_EQ(pair.node.run(Kind::fetch_add, 1, 0, &old, 8, in(20ms), 1), Outcome::timed_out);
      EXPECT_EQ(pair.flush(in(20ms)), Outcome::timed_out);
      pair.go_on();
      EXPECT_EQ(pair.flush(), Outcome::done);
      std::uint64_t first = 0;
      ASSERT_EQ(pair.node.read(1, 0, &first, 8), Outcome::done);
      for (int look = 0; look < 50; ++look) {
        std::uint64_t now = 0;
        ASSERT_EQ(pair.node.read(1, 0, &now, 8), Outcome::done);
        ASSERT_EQ(now, first);
      }
    }
  });
}

// Nor is a flush done after a WRITE that timed out before the first connection was up: it has never been sent.
TEST(UcxBrokenLink, FlushReportsAWriteThatWasNeverSent) {
  on_a_pair([](Pair& pair) {
    stop(pair.target);
    pair.node.channel = pair.node.engine->open_channel();
    std::uint64_t value = 1;
    EXPECT_EQ(pair.node.write(1, 0, &value, 8, in(50ms)), Outcome::timed_out);
    EXPECT_EQ(pair.flush(in(50ms)), Outcome::timed_out);
    pair.go_on();
    EXPECT_EQ(pair.put(0, 2), Outcome::done);
    EXPECT_EQ(pair.flush(), Outcome::done);
  });
}

// A peer that stands still delays those who fence it, and no others.
TEST(UcxBrokenLink, FenceDoesNotWaitForOtherPeers) {
  Fleet fleet(3, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const pid_t target = std::stoi(me.exchange(std::to_string(::getpid()))[1]);
    if (me.index() == 0) {
      std::uint64_t value = 0;
      ASSERT_EQ(node.read(1, 0, &value, 8), Outcome::done);
      stop(target);
      Completion completion;
      node.channel->post({Kind::read, node.remotes[1].get(), 0, reinterpret_cast<std::byte*>(&value), 8, 0, 0},
                         completion);
      ASSERT_EQ(completion.pending, 1u);
      std::uint64_t other = 3;
      EXPECT_EQ(node.write(2, 0, &other, 8), Outcome::done);
      EXPECT_EQ(node.channel->fence(2, in(5s)), Outcome::done);
      EXPECT_EQ(node.channel->fence(1, in(20ms)), Outcome::timed_out);
      ASSERT_EQ(::kill(target, SIGCONT), 0);
      node.channel->finish(completion, default_deadline());
      EXPECT_EQ(completion.outcome, Outcome::done);
    }
    me.barrier();
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
