// Requests to whichever of a partition's two servers serves it: kv_homed_world.h.
#include <string>

#include "tests/sim/kv/kv_homed_world.h"

namespace farside::sim::homed {
namespace {

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

// It is not known whether the primary did it, and was then superseded by others: the writer must not do it once more.
TEST(KvHomedRequests, DoNotTakeABarOfWhatWasAskedTwiceForOne) {
  const auto answer = [](const Side& side) {
    const auto reply = side.requests.receive(0, side.fabric.in(1min));
    return kv::Reply::decode(reply.value).value().answer;
  };
  PartitionRun({}, [&](Side& side) {
    side.servers[kPrimary].says_nothing = true;
    side.servers[kStandby].bars = true;
    ASSERT_EQ(side.send("put"), Outcome::done);
    side.wait();
    side.move();
    EXPECT_EQ(answer(side), kv::Answer::unknown);
    EXPECT_EQ(side.servers[kStandby].asked, Texts{"put"});
    ASSERT_EQ(side.send("put"), Outcome::done);
    EXPECT_EQ(answer(side), kv::Answer::barred) << "asked once";
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
}

TEST(KvHomedRequests, WaitForTheStandbyOfAPrimaryThatWasLostBefore) {
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
    EXPECT_LT(side.took([&] { EXPECT_EQ(side.receive(3s), "timed out"); }), 3100ms);
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

TEST(KvHomedRequests, WaitForAReplyWithoutTakingIt) {
  PartitionRun({}, [](Side& side) {
    side.servers[kPrimary].stands_still = true;
    ASSERT_EQ(side.send("a"), Outcome::done);
    EXPECT_EQ(side.requests.await(0, side.fabric.in(50ms)), Outcome::timed_out);
    side.servers[kPrimary].stands_still = false;
    EXPECT_EQ(side.requests.await(0, side.fabric.in(1min)), Outcome::done);
    EXPECT_EQ(side.receive(0ms), "primary a");
  });
}

// That the primary is lost is no answer as long as its standby may serve instead.
TEST(KvHomedRequests, WaitForTheStandbysReplyWithoutTakingIt) {
  PartitionRun({}, [](Side& side) {
    side.servers[kPrimary].says_nothing = true;
    ASSERT_EQ(side.send("a"), Outcome::done);
    side.lose(kPrimary);
    EXPECT_EQ(side.requests.await(0, side.fabric.in(50ms)), Outcome::timed_out);
    side.move_after(10ms);
    EXPECT_EQ(side.requests.await(0, side.fabric.in(1min)), Outcome::done);
    EXPECT_EQ(side.receive(0ms), "standby a");
  });
}

}  // namespace
}  // namespace farside::sim::homed
