// A rank that uses what another rank has taken away sees an error, or nothing, and never crashes.
#include <chrono>
#include <csignal>

#include <gtest/gtest.h>

#include "farside/comm/arrival_counter.h"
#include "farside/comm/barrier.h"
#include "farside/comm/broadcast.h"
#include "farside/comm/collectives.h"
#include "farside/comm/messages.h"
#include "farside/comm/rendezvous.h"

#include "tests/comm/seat.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kLarge = 200'000;  // more than a caller copies itself

/// One of everything, in the order in which a program would make it.
struct Everything {
  explicit Everything(team::Team& team)
      : comm(team),
        memory(team.allocate("memory", kLarge + 64)),
        barrier(comm),
        counter(comm),
        broadcast(comm),
        rendezvous(comm, {memory.get()}, 4),
        messages(comm,
                 {[](comm::Messages::Call& call) { (void)call.reply({.handler = 1}); }, [](comm::Messages::Call&) {}}),
        collectives(comm) {}

  comm::Comm comm;
  std::unique_ptr<team::SymmetricRegion> memory;
  comm::Barrier barrier;
  comm::ArrivalCounter counter;
  comm::Broadcast broadcast;
  comm::Rendezvous rendezvous;
  comm::Messages messages;
  comm::Collectives collectives;
};

/// Whatever can be done with `rank` and the others, each for a short time, whether it works or not.
void use_all(Everything& all, Channel& channel, team::Rank rank, Fabric& fabric, std::vector<std::byte>& data) {
  const RemoteRegion& there = all.memory->of(rank);
  const auto soon = [&] { return fabric.in(2ms); };
  const LocalSpan bytes(data.data(), kLarge);
  (void)all.comm.put(channel, there.span(64, kLarge), bytes, comm::AddToWord{there.word<AtomicWord>(0), 1});
  (void)all.comm.get(channel, bytes, there.span(64, kLarge));
  (void)all.comm.put(channel, there.span(64, 8), LocalSpan(data.data(), 8),
                     comm::SetWord{there.word<ControlWord>(8), 1});
  (void)all.comm.fetch_add(channel, there.word<AtomicWord>(16), std::uint64_t{1}, soon());
  (void)all.broadcast.send(channel, *all.memory, 64, there.span(64, 1024), {.offset = 24, .value = 1});
  (void)all.messages.send(channel, rank, {.handler = 0}, soon());
  const auto arrival = all.counter.at(channel, rank, 0, soon());
  if (arrival.status.done()) (void)all.comm.notify(channel, arrival.notice);
  const auto begun = all.barrier.begin(channel, soon());
  if (begun.number != 0) (void)all.barrier.wait(channel, begun.number, soon());
  EXPECT_NE(all.comm.wait(channel, all.comm.issued(), fabric.in(kTimeout)).outcome, Outcome::timed_out);
}

void meet_once(Everything& all, Channel& channel, team::Rank rank, Fabric& fabric) {
  const auto soon = [&] { return fabric.in(5ms); };
  std::uint64_t sum = 1;
  (void)all.collectives.all_reduce(channel, std::span(&sum, 1), soon());
  const auto ticket = all.rendezvous.offer(channel, 1, rank, {0, 64, 8});
  if (!all.rendezvous.wait(channel, ticket, soon()).status.done())
    (void)all.rendezvous.withdraw(channel, ticket, soon());
}

enum class Leaves { what_it_made, its_process };

// Rank 0 takes everything away while the others are busy with it, and lives on; or its process ends.
void leave_while_others_work(Leaves leaves) {
  const int rounds = static_cast<int>(reduced(40));
  Survivors others;
  Shared<std::atomic<bool>> over;
  Fleet fleet(3, [&](Member& me) {
    FleetTeam team(me);
    auto all = std::make_unique<Everything>(team);
    const auto channel = team.fabric().open_channel();
    std::vector<std::byte> data(kLarge);
    me.barrier();
    const int mine = me.index() == 0 ? rounds / 4 : rounds;
    for (int round = 0; round < mine; ++round) {
      const team::Rank rank = (me.index() + 1 + round % 2) % me.count();
      use_all(*all, *channel, rank, team.fabric(), data);
    }
    if (me.index() == 0) {
      all.reset();
      if (leaves == Leaves::what_it_made) {
        EXPECT_TRUE(eventually([&] { return over->load(); }));
      }
      return;
    }
    meet_once(*all, *channel, 0, team.fabric());
    others.leave_together(2);
    *over = true;
  });
  fleet.expect_success();
}

TEST(Leaving, IsSeenAsAnErrorByWhoGoesOn) { leave_while_others_work(Leaves::what_it_made); }

TEST(Leaving, WithItsProcessIsSeenAsALoss) { leave_while_others_work(Leaves::its_process); }

// A Comm does not wait for who is dead: the service thread's work for it ends when the death is known.
TEST(Leaving, DoesNotWaitForTheDead) {
  Shared<std::atomic<unsigned>> ready;
  Fleet fleet(2, [&](Member& me) {
    FleetTeam team(me);
    auto comm = std::make_unique<comm::Comm>(team);
    const auto memory = team.allocate("memory", kLarge);
    ++*ready;
    if (me.index() == 1) ::pause();  // until it is killed
    const auto channel = team.fabric().open_channel();
    EXPECT_TRUE(eventually([&] { return *ready == 3; }));  // rank 1 has been stopped
    std::vector<std::byte> data(kLarge);
    for (int copy = 0; copy < 100; ++copy) {
      (void)comm->put(*channel, memory->of(1).span(0, kLarge), LocalSpan(data.data(), kLarge));
    }
    ++*ready;
    const Time before = team.fabric().now();
    comm.reset();
    EXPECT_LT(team.fabric().now() - before, 20s);
  });
  ASSERT_TRUE(eventually([&] { return *ready == 2; }));
  fleet.stop(1);
  ++*ready;
  ASSERT_TRUE(eventually([&] { return *ready == 4; }));
  fleet.signal(1, SIGKILL);
  EXPECT_EQ(fleet.wait(0), 0);
}

}  // namespace
}  // namespace farside::test
