// A notice that comm has given (src/comm/copies.h) arrives, also when the link is replaced right afterwards.
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "comm/copies.h"
#include "tests/sim/fabric/litmus.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

using Give = std::function<Outcome(Side&, RemoteWord<ControlWord>)>;

/// The link is stalled when the notice is given, by `give`; an operation that comes later is given up, which replaces
/// the link. Then the notice may be missing although `give` returned done: that is told.
std::optional<std::string> violation(std::uint64_t seed, FaultCount& count, const Give& give) {
  const auto program = [&](Side& me) {
    World& world = me.litmus.world;
    const auto process = [&](team::Rank rank) { return world.fabric(rank).process(); };
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
  Litmus litmus(seed, network);
  litmus.world.wires().count_faults(count);
  if (litmus.run({program, {}, {}})) return "a notice that was given is missing";
  return std::nullopt;
}

constexpr std::uint64_t kValue = 7;

TEST(NoticeSim, ArrivesWhenItsLinkIsReplacedAfterwards) {
  const Give give_and_flush = [](Side& me, RemoteWord<ControlWord> word) {
    return comm::give(*me.channel, comm::SetWord{word, kValue}, me.litmus.world.fabric(me.rank).in(milliseconds(1)))
        .outcome;
  };
  expect_kept(kSeeds, [&](std::uint64_t seed, FaultCount& count) { return violation(seed, count, give_and_flush); });
}

TEST(NoticeSim, CatchesANoticeThatIsNotFlushed) {
  const Give write_only = [](Side& me, RemoteWord<ControlWord> word) {
    return me.channel->write_signal(word, kValue, me.litmus.world.fabric(me.rank).in(milliseconds(1)));
  };
  FaultCount count;
  EXPECT_TRUE(first_violation(kSeeds, [&](std::uint64_t seed) { return violation(seed, count, write_only); }));
}

}  // namespace
}  // namespace farside::sim
