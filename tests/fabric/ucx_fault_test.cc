// What the UCX engine makes of a UCX that refuses, that never finishes, and that never falls silent.
#include <cstdlib>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fabric/ucx_faults.h"
#include "tests/fabric/ucx_node.h"

namespace farside::test {
namespace {

bool comes_to(Node& node, Outcome wanted) {
  std::uint64_t value = 0;
  return eventually([&] { return node.read(1, 0, &value, 8) == wanted; });
}

void expect_a_lost_link(const std::vector<std::atomic<bool>*>& faults) {
  Fleet fleet(2, [&](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 0;
    for (std::atomic<bool>* fault : faults) {
      if (me.index() != 0) break;
      node.channel = node.engine->open_channel();
      *fault = true;
      EXPECT_EQ(node.read(1, 0, &value, 8), Outcome::link_lost);
      EXPECT_FALSE(node.engine->lost(1));
      *fault = false;
      EXPECT_TRUE(comes_to(node, Outcome::done));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// Want of memory or descriptors in this process says nothing of the peer, which far memory would otherwise give up.
TEST(UcxFaults, LocalTroubleIsALostLinkAndNotALostPeer) {
  expect_a_lost_link({&ucx_faults().no_endpoints, &ucx_faults().no_reads});
}

// Over TCP alone the target's CPU is asked, without a key.
TEST(UcxFaults, WantOfAKeyIsALostLinkAndNotALostPeer) {
  ::setenv("UCX_TLS", "tcp,cma", 1);
  expect_a_lost_link({&ucx_faults().no_keys});
  ::unsetenv("UCX_TLS");
}

// A caller may try again in a loop: the channel waits between two connections, and within the caller's deadline.
TEST(UcxFaults, TryingAgainDoesNotSpin) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 0;
    if (me.index() == 0) {
      ucx_faults().no_endpoints = true;
      const unsigned before = ucx_faults().endpoints_asked;
      Outcome outcome = Outcome::link_lost;
      for (const Deadline deadline = in(1s); outcome == Outcome::link_lost;) {
        outcome = node.read(1, 0, &value, 8, deadline);
      }
      EXPECT_EQ(outcome, Outcome::timed_out);
      EXPECT_LT(ucx_faults().endpoints_asked - before, 50u);
      ucx_faults().no_endpoints = false;
      EXPECT_TRUE(comes_to(node, Outcome::done));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// UCX that does not cancel what timed out must not hold the caller; nor may it touch the buffer afterwards.
TEST(UcxFaults, AbandonedOperationsEndThoughUcxNeverCancelsThem) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    if (me.index() == 0) {
      make_ucx_faults_mine();
      std::uint64_t value = 1;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.channel->flush(1, patience()), Outcome::done);
      const pid_t target = std::stoi(me.exchange("")[1]);
      stop(target);
      std::vector<std::uint64_t> into(512, 7);
      ucx_faults().no_progress = true;
      EXPECT_EQ(node.read(1, 0, into.data(), into.size() * 8, in(50ms)), Outcome::timed_out);
      ucx_faults().no_progress = false;
      ASSERT_EQ(::kill(target, SIGCONT), 0);
      EXPECT_TRUE(comes_to(node, Outcome::done));
      EXPECT_EQ(into, std::vector<std::uint64_t>(512, 7));
      value = 2;
      EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      EXPECT_EQ(node.channel->flush(1, patience()), Outcome::done);
    } else {
      me.exchange(std::to_string(::getpid()));
    }
    me.barrier();
    EXPECT_EQ(look(node.words[0]), me.index() == 1 ? 2u : 0u);
    me.barrier();
  });
  fleet.expect_success();
}

// Peers that never fall silent must not keep this process's other threads from the engine.
TEST(UcxFaults, EndlessTrafficKeepsNoThreadOut) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    if (me.index() == 0) {
      make_ucx_faults_mine();
      ucx_faults().endless_traffic = true;
      std::this_thread::sleep_for(10ms);  // the service thread finds it
      const std::string address = node.engine->address();
      EXPECT_FALSE(node.engine->lost(1));
      node.engine->connect(2, address);
      EXPECT_EQ(node.engine->revoke(node.engine->peer(1), patience()), Outcome::done);
      ucx_faults().endless_traffic = false;
    }
    me.barrier();
  });
  fleet.expect_success();
}

// Over verbs a revocation waits for queue pairs to go. It ends at its deadline, and others use the engine until then.
TEST(UcxFaults, RevocationThatTakesLongKeepsNoThreadOut) {
  ::setenv("UCX_TLS", "tcp,cma", 1);
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    if (me.index() == 0) {
      ucx_faults().endless_flush = true;
      std::atomic<bool> over = false;
      std::thread revoker([&] {
        EXPECT_EQ(node.engine->revoke(node.engine->peer(1), in(3s)), Outcome::timed_out);
        over = true;
      });
      EXPECT_TRUE(eventually([&] { return node.engine->lost(1); }));
      std::this_thread::sleep_for(100ms);  // it waits by now
      (void)node.engine->address();
      EXPECT_EQ(node.engine->revoke(node.engine->peer(1), {monotonic_now()}), Outcome::timed_out);
      EXPECT_FALSE(over);
      revoker.join();
      ucx_faults().endless_flush = false;
    }
    me.barrier();
  });
  ::unsetenv("UCX_TLS");
  fleet.expect_success();
}

// A setting that UCX no longer knows would be missed in silence, until a host vanishes.
TEST(UcxFaults, ASettingThatUcxDoesNotKnowIsReported) {
  Fleet fleet(1, [](Member& /*me*/) {
    for (const bool forgets : {false, true}) {
      ucx_faults().forgets_setting = forgets;
      testing::internal::CaptureStderr();
      const Node node(4096);
      const std::string log = testing::internal::GetCapturedStderr();
      EXPECT_EQ(log.find("CONN_NB") != std::string::npos, forgets) << log;
    }
  });
  fleet.expect_success();
}

// Without the first a NIC may store a flag before its data, in the target's PCIe; over GPUs' transports connections are
// set up in another order.
TEST(UcxFaults, UcxIsToldWhatTheMemoryModelRequires) {
  Fleet fleet(1, [](Member& /*me*/) {
    ::unsetenv("UCX_TLS");
    ::setenv("UCX_NET_DEVICES", "lo", 1);
    const UcxEngine engine([] {}, 2);
    EXPECT_EQ(ucx_faults().settings["PCI_RELAXED_ORDERING"], "no");
    EXPECT_EQ(ucx_faults().settings["TLS"], "^sm,cuda,rocm,ze");
  });
  fleet.expect_success();
}

// By it UCX chooses transports whose state does not grow with the number of peers.
TEST(UcxFaults, UcxIsToldHowManyEndpointsAreExpected) {
  Fleet fleet(1, [](Member& /*me*/) {
    ::setenv("UCX_NET_DEVICES", "lo", 1);
    const UcxEngine engine([] {}, 1234);
    EXPECT_EQ(ucx_faults().estimated_endpoints, 1234u);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
