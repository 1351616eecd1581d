// A notice that comm has given (src/comm/copies.h) arrives, also when the link is replaced right afterwards.
#include <gtest/gtest.h>

#include "comm/copies.h"
#include "tests/sim/litmus.h"

namespace farside::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// The link is stalled when the notice is given, by `give`; an operation that comes later is given up, which replaces
/// the link. Then the notice is missing although `give` returned done.
bool may_be_missing(const std::function<Outcome(Side&, RemoteWord<ControlWord>)>& give) {
  const auto program = [&](Side& me) {
    World& world = me.litmus.world;
    const auto process = [&](Rank rank) { return world.fabric(rank).process(); };
    world.wires().stall(process(kWriter), process(kTarget), microseconds(20));
    if (give(me, me.memory->of(kTarget).word<ControlWord>(0)) != Outcome::done) return;
    const Deadline soon = world.fabric(me.rank).in(microseconds(10));
    (void)me.channel->load(me.memory->of(kTarget).word<ControlWord>(16), soon);
    world.fabric(me.rank).sleep(milliseconds(20));
    me.litmus.happened = me.read(kTarget, 0) == 0;
  };
  Network network = tame();
  network.completes_before_visible = true;
  network.replaces_links = true;
  return possible(network, {program, {}, {}});
}

constexpr std::uint64_t kValue = 7;

TEST(NoticeSim, ArrivesWhenItsLinkIsReplacedAfterwards) {
  EXPECT_FALSE(may_be_missing([](Side& me, RemoteWord<ControlWord> word) {
    return give(*me.channel, SetWord{word, kValue}, me.litmus.world.fabric(me.rank).in(milliseconds(1))).outcome;
  }));
}

TEST(NoticeSim, CatchesANoticeThatIsNotFlushed) {
  EXPECT_TRUE(may_be_missing([](Side& me, RemoteWord<ControlWord> word) {
    return me.channel->write_signal(word, kValue, me.litmus.world.fabric(me.rank).in(milliseconds(1)));
  }));
}

}  // namespace
}  // namespace farside::sim
