// Conformance: a number whose process was lost is connected again. What was meant for the earlier process harms none of
// its successor, and what the earlier one was given is not taken for delivered.
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"
#include "farside/fabric/host.h"

#include "tests/support/mesh.h"

namespace farside::test {
namespace {

// A number that was lost begins anew when it is connected again; what was attached before stays lost for ever.
TEST(Loss, ANumberConnectedAgainIsANewIncarnation) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    EXPECT_THROW(mesh.fabric->connect(0, mesh.fabric->address()), Error) << "it is not lost";
    mesh.fabric->mark_lost(0);
    EXPECT_TRUE(mesh.fabric->lost(0));
    EXPECT_THROW((void)mesh.fabric->attach(0, mesh.local->handle()), Error);
    EXPECT_EQ(mesh.channel->flush(0, mesh.deadline()), Outcome::peer_lost);

    mesh.fabric->connect(0, mesh.fabric->address());
    EXPECT_FALSE(mesh.fabric->lost(0));
    const std::unique_ptr<RemoteRegion> anew = mesh.fabric->attach(0, mesh.local->handle());
    EXPECT_EQ(mesh.channel->fetch_add(mesh.at(0).word<AtomicWord>(8), 1, mesh.deadline()).status, Outcome::peer_lost);
    EXPECT_TRUE(mesh.channel->fetch_add(anew->word<AtomicWord>(8), 1, mesh.deadline()).done());
    EXPECT_EQ(mesh.channel->flush(0, mesh.deadline()), Outcome::done);
    EXPECT_EQ(mesh.local->word<AtomicWord>(8).load(), 1U);
  });
  fleet.expect_success();
}

// A detector that learns late of a death has the process in mind that died, not the one that has its number now.
TEST(Loss, ALateDetectorDoesNotHitTheSuccessor) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const PeerLife first = mesh.fabric->life(0);
    mesh.fabric->mark_lost(0, first);
    mesh.fabric->connect(0, mesh.fabric->address());
    const PeerLife second = mesh.fabric->life(0);
    EXPECT_GT(second, first);
    mesh.fabric->mark_lost(0, first);
    EXPECT_FALSE(mesh.fabric->lost(0));
    EXPECT_EQ(mesh.channel->flush(0, mesh.deadline()), Outcome::done);
    mesh.fabric->mark_lost(0, second);
    EXPECT_TRUE(mesh.fabric->lost(0));
  });
  fleet.expect_success();
}

// Fencing, too, is of one process: the successor is not killed for what its predecessor did.
TEST(Loss, ALateRevocationDoesNotHitTheSuccessor) {
  Fleet fleet(3, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const std::vector<std::string> addresses = me.exchange(mesh.fabric->address());
    if (me.index() == 0) {
      const PeerLife first = mesh.fabric->life(1);
      mesh.fabric->mark_lost(1, first);
      mesh.fabric->connect(1, addresses[2]);
      EXPECT_EQ(mesh.fabric->revoke(1, first, mesh.deadline()), Outcome::done);
      EXPECT_FALSE(mesh.fabric->lost(1));
      const std::unique_ptr<Channel> channel = mesh.fabric->open_channel();
      EXPECT_EQ(channel->flush(1, mesh.deadline()), Outcome::done);
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A waiter that sleeps through both the loss and the new connection is told of the loss all the same.
TEST(Loss, AWaitEndsWithTheLifeThatItBeganIn) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    std::atomic<bool> waits = false;
    std::thread waiter([&] {
      const auto channel = mesh.fabric->open_channel();
      const auto never = [&](std::uint64_t) {
        waits = true;
        return false;
      };
      constexpr std::array<PeerId, 1> kPeers{0};
      EXPECT_EQ(channel->wait_until(*mesh.local, mesh.local->word<ControlWord>(0), never, mesh.deadline(), kPeers),
                Outcome::peer_lost);
    });
    EXPECT_TRUE(eventually([&] { return waits.load(); }));
    mesh.fabric->mark_lost(0);
    mesh.fabric->connect(0, mesh.fabric->address());
    waiter.join();
  });
  fleet.expect_success();
}

// What was written to a life that ended is not there in the next one, and a flush does not say so.
// A flag that follows data to a peer that is another one by now would be seen without them.
TEST(Loss, FencesSignalsAndFlushesTellOnceOfWritesToAnEarlierLife) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    std::uint64_t word = 1;
    EXPECT_EQ(mesh.channel->write(mesh.at(0).span(0, 8), LocalSpan(word), mesh.deadline()), Outcome::done);
    mesh.fabric->mark_lost(0);
    mesh.fabric->connect(0, mesh.fabric->address());
    const auto again = mesh.fabric->attach(0, mesh.local->handle());
    const auto flag = again->word<ControlWord>(8);
    EXPECT_EQ(mesh.channel->fence(0, mesh.deadline()), Outcome::peer_lost);
    EXPECT_EQ(mesh.channel->fence(0, mesh.deadline()), Outcome::done);
    EXPECT_EQ(mesh.channel->write_signal(flag, 1, mesh.deadline()), Outcome::peer_lost);
    EXPECT_EQ(mesh.local->word<ControlWord>(8).load(), 0u);
    EXPECT_EQ(mesh.channel->write_signal(flag, 1, mesh.deadline()), Outcome::done);
    EXPECT_EQ(mesh.channel->flush(0, mesh.deadline()), Outcome::peer_lost);
    EXPECT_EQ(mesh.channel->flush(0, mesh.deadline()), Outcome::done);

    EXPECT_EQ(mesh.channel->write(again->span(0, 8), LocalSpan(word), mesh.deadline()), Outcome::done);
    mesh.fabric->mark_lost(0);
    mesh.fabric->connect(0, mesh.fabric->address());
    auto last = mesh.fabric->attach(0, mesh.local->handle());
    EXPECT_EQ(mesh.channel->add_signal(last->word<AtomicWord>(16), 1, mesh.deadline()).status, Outcome::peer_lost);
    EXPECT_EQ(mesh.channel->add_signal(last->word<AtomicWord>(16), 1, mesh.deadline()).status, Outcome::done);
    EXPECT_EQ(mesh.local->word<AtomicWord>(16).load(), 1u);
    EXPECT_EQ(mesh.channel->flush(0, mesh.deadline()), Outcome::peer_lost);

    // The life that was written to, and lost, after such a report is one more.
    EXPECT_EQ(mesh.channel->write(last->span(0, 8), LocalSpan(word), mesh.deadline()), Outcome::done);
    for (int lives = 0; lives < 2; ++lives) {
      mesh.fabric->mark_lost(0);
      mesh.fabric->connect(0, mesh.fabric->address());
      last = mesh.fabric->attach(0, mesh.local->handle());
      const auto next_flag = last->word<ControlWord>(8);
      EXPECT_EQ(mesh.channel->write_signal(next_flag, 1, mesh.deadline()), Outcome::peer_lost);
      EXPECT_EQ(mesh.channel->write(last->span(0, 8), LocalSpan(word), mesh.deadline()), Outcome::done);
    }
    EXPECT_EQ(mesh.channel->flush(0, mesh.deadline()), Outcome::peer_lost);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
