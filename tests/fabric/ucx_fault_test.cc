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

// While a network is down, links fail before their hello as often as they are tried. The peer believes in only so
// many that it has not heard of: a channel must begin anew before that, or it would be locked out for good.
TEST(UcxFaults, AChannelGetsInAfterMoreMissedHellosThanItsPeerBelieves) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const std::string address = me.exchange(node.engine->address())[1];
    const std::string handle = me.exchange(node.memory->handle())[1];
    if (me.index() == 0) {
      const auto read_by_a_new_link = [&](Deadline deadline) {
        node.engine->mark_lost(1);
        node.engine->connect(1, address);
        node.remotes[1] =
            std::make_unique<RemoteRegion>("test", 1, 4096, nullptr, UcxEngine::attach(node.engine->peer(1), handle));
        std::uint64_t value = 0;
        return node.read(1, 0, &value, 8, deadline);
      };
      ucx_faults().no_hellos = true;
      for (std::uint64_t missed = 0; missed <= kMaxMissedHellos + 1; ++missed) {
        ASSERT_NE(read_by_a_new_link({monotonic_now()}), Outcome::done);
      }
      ucx_faults().no_hellos = false;
      (void)read_by_a_new_link(default_deadline());
      EXPECT_TRUE(comes_to(node, Outcome::done));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A result that the target could not send is missing for good, and so is all that the link would bring after it: the
// target closes its end. To who asked that is a time-out, after which a new link works.
TEST(UcxFaults, ALinkWhoseResultCouldNotBeSentCarriesNothingMore) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 0;
    Completion first;
    const auto add = [&](std::uint64_t offset, Completion& completion) {
      node.channel->post(
          {Kind::fetch_add, node.remotes[1].get(), offset, reinterpret_cast<std::byte*>(&value), 8, 1, 0}, completion);
    };
    if (me.index() == 0) {
      EXPECT_EQ(node.read(1, 0, &value, 8), Outcome::done);
    }
    me.barrier();
    ucx_faults().no_results = me.index() == 1;
    me.barrier();
    if (me.index() == 0) {
      add(0, first);
    } else {
      EXPECT_TRUE(eventually([&] { return ucx_faults().results_refused == 1; }));
      (void)node.engine->address();  // the service thread closes within the turn in which it was refused
      ucx_faults().no_results = false;
    }
    me.barrier();
    if (me.index() == 0) {
      EXPECT_EQ(node.run(Kind::fetch_add, 1, 8, &value, 8, in(200ms), 1), Outcome::timed_out);
      node.channel->finish(first, in(0ms));
      EXPECT_EQ(first.outcome, Outcome::timed_out);
      EXPECT_FALSE(node.engine->lost(1));
      EXPECT_TRUE(comes_to(node, Outcome::done));
    }
    me.barrier();
    EXPECT_EQ(look(node.words[0]), me.index());
    EXPECT_EQ(look(node.words[1]), 0u);
    me.barrier();
  });
  fleet.expect_success();
}

// To revoke a peer makes the worker progress, which finds what others ask of memory that is gone by then.
TEST(UcxFaults, RevocationAnswersNoRequestOnceTheEngineHasStopped) {
  ::setenv("UCX_TLS", "tcp,cma", 1);
  Fleet fleet(3, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 0;
    Completion late;
    if (me.index() == 1) {
      EXPECT_EQ(node.read(0, 0, &value, 8), Outcome::done);
    }
    me.barrier();
    if (me.index() == 0) node.engine->stop_answering();
    me.barrier();
    if (me.index() == 1) {
      node.channel->post({Kind::fetch_add, node.remotes[0].get(), 0, reinterpret_cast<std::byte*>(&value), 8, 1, 0},
                         late);
    }
    me.barrier();
    if (me.index() == 0) {
      ucx_faults().endless_flush = true;
      EXPECT_EQ(node.engine->revoke(node.engine->peer(2), in(200ms)), Outcome::timed_out);
      ucx_faults().endless_flush = false;
      EXPECT_EQ(look(node.words[0]), 0u);
    }
    me.barrier();
    node.channel->finish(late, in(0ms));
    me.barrier();
  });
  ::unsetenv("UCX_TLS");
  fleet.expect_success();
}

// What a peer sends needs memory at the target. Whichever piece is lacking, the peer's wait ends by its deadline, and
// the target lives on and lets it in later.
TEST(UcxFaults, WantOfMemoryForWhatAPeerSendsEndsNoProcess) {
  Shared<std::atomic<bool>> reached;
  Fleet fleet(2, [&](Member& me) {
    Node node(4096);
    node.meet(me);
    make_ucx_faults_mine();
    UcxFaults& faults = ucx_faults();
    for (int granted = 0, refused = 1; refused != 0; ++granted) {
      *reached = false;
      faults.memory_refused = 0;
      faults.memory_left = granted;
      faults.scarce_memory = me.index() == 0;
      me.barrier();
      if (me.index() == 0) {
        EXPECT_TRUE(eventually([&] { return faults.memory_refused != 0 || *reached; }));
        faults.scarce_memory = false;
      } else {
        EXPECT_TRUE(eventually([&] {
          std::uint64_t value = 0;
          node.channel = node.engine->open_channel();
          return node.read(0, 0, &value, 8, in(300ms)) == Outcome::done;
        }));
        *reached = true;
      }
      refused = std::stoi(me.exchange(std::to_string(faults.memory_refused))[0]);
    }
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
      ASSERT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
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
      EXPECT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
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
      EXPECT_EQ(node.engine->revoke(node.engine->peer(1), default_deadline()), Outcome::done);
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
void expect_forgotten_settings_reported() {
  Fleet fleet(1, [](Member& /*me*/) {
    for (const std::string forgotten : {"", "CONN_NB", "KEEPIDLE", "KEEPALIVE_INTERVAL"}) {
      ucx_faults().forgotten_setting = forgotten;
      testing::internal::CaptureStderr();
      const Node node(4096);
      const std::string log = testing::internal::GetCapturedStderr();
      for (const std::string setting : {"CONN_NB", "KEEPIDLE", "KEEPALIVE_INTERVAL"}) {
        EXPECT_EQ(log.find(setting) != std::string::npos, setting == forgotten) << log;
      }
    }
  });
  fleet.expect_success();
}
TEST(UcxFaults, ASettingThatUcxDoesNotKnowIsReported) { expect_forgotten_settings_reported(); }

// UCX tells of it in its own log.
TEST(UcxFaults, ASettingThatUcxDoesNotKnowIsReportedWhereUcxsWarningsAreHidden) {
  ::setenv("UCX_LOG_LEVEL", "error", 1);
  expect_forgotten_settings_reported();
  ::unsetenv("UCX_LOG_LEVEL");
}

// Without the first a NIC may store a flag before its data, in the target's PCIe; over GPUs' transports connections are
// set up in another order.
TEST(UcxFaults, UcxIsToldWhatTheMemoryModelRequires) {
  Fleet fleet(1, [](Member& /*me*/) {
    ::unsetenv("UCX_TLS");
    ::setenv("UCX_NET_DEVICES", "lo", 1);
    const UcxEngine engine([] {}, {.expected_peers = 2});
    EXPECT_EQ(ucx_faults().settings["PCI_RELAXED_ORDERING"], "no");
    EXPECT_EQ(ucx_faults().settings["TLS"], "^sm,cuda,rocm,ze");
  });
  fleet.expect_success();
}

// Without it, that version takes the name for one of no transport.
TEST(UcxFaults, SettingsOfTransportsHaveAPrefixFromVersion17On) {
  Fleet fleet(1, [](Member& /*me*/) {
    ucx_faults().minor_version = 17;
    ::setenv("UCX_NET_DEVICES", "lo", 1);
    const UcxEngine engine([] {});
    for (const std::string setting : {"TCP_CONN_NB", "TCP_KEEPIDLE", "IB_PCI_RELAXED_ORDERING", "KEEPALIVE_INTERVAL"}) {
      EXPECT_TRUE(ucx_faults().settings.contains(setting)) << setting;
    }
  });
  fleet.expect_success();
}

// By it UCX chooses transports whose state does not grow with the number of peers.
TEST(UcxFaults, UcxIsToldHowManyEndpointsAreExpected) {
  Fleet fleet(1, [](Member& /*me*/) {
    ::setenv("UCX_NET_DEVICES", "lo", 1);
    const UcxEngine engine([] {}, {.expected_peers = 1234});
    EXPECT_EQ(ucx_faults().estimated_endpoints, 1234u);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
