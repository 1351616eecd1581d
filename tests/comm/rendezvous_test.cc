// What offers and claims promise, between real processes.
#include "farside/comm/rendezvous.h"

#include <csignal>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "tests/comm/seat.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

using comm::Rendezvous;

using testing::HasSubstr;

/// A seat with memory that all know, and a rendezvous in it.
struct Table : Seat {
  Table(Member& me, std::uint64_t bytes)
      : Seat(me), memory(team.allocate("known", bytes)), rendezvous(comm, {memory.get()}, 16) {}

  void fill(std::uint64_t offset, std::uint64_t bytes, std::uint64_t seed) {
    memory->local().copy_in(offset, pattern(bytes, seed));
  }
  void expect_filled(std::uint64_t offset, std::uint64_t bytes, std::uint64_t seed) {
    std::vector<std::byte> found(bytes);
    memory->local().copy_out(offset, found);
    EXPECT_TRUE(found == pattern(bytes, seed)) << "round " << seed;
  }
  /// Waits for a use that fits.
  void expect_met(const Rendezvous::Ticket& ticket) {
    const Rendezvous::Copied result = rendezvous.wait(*channel, ticket, deadline());
    ASSERT_TRUE(result.status.done());
    EXPECT_FALSE(result.sizes_differ);
    EXPECT_TRUE(rendezvous.ended(ticket));
  }
  [[nodiscard]] Outcome wait_a_moment(const Rendezvous::Ticket& ticket) {
    return rendezvous.wait(*channel, ticket, team.fabric().in(std::chrono::milliseconds(20))).status.outcome;
  }

  std::unique_ptr<team::SymmetricRegion> memory;
  Rendezvous rendezvous;

 private:
  static std::vector<std::byte> pattern(std::uint64_t bytes, std::uint64_t seed) {
    std::vector<std::byte> made(bytes);
    for (std::uint64_t at = 0; at < bytes; ++at) made[at] = static_cast<std::byte>(at * 7 + seed);
    return made;
  }
};

// Whichever end comes first, and however large the piece: it arrives, and both ends are told.
class RendezvousSizes : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, RendezvousSizes, testing::Values(0, 8, 4095, comm::Comm::kInlineBytes + 1, 1'000'001));

TEST_P(RendezvousSizes, MeetInEitherOrder) {
  Fleet fleet(2, [](Member& me) {
    const std::uint64_t bytes = GetParam();
    Table table(me, bytes + 8);
    for (std::uint64_t round = 1; round <= 4; ++round) {
      const bool offers = me.index() == 0;
      const bool comes_first = offers == (round % 2 == 0);
      if (offers) table.fill(0, bytes, round);
      if (!comes_first) me.barrier();
      const Rendezvous::Ticket ticket = offers ? table.rendezvous.offer(*table.channel, 3, 1, {0, 0, bytes})
                                               : table.rendezvous.claim(*table.channel, 3, 0, {0, 8, bytes});
      if (comes_first) {
        EXPECT_FALSE(table.rendezvous.ended(ticket));
        me.barrier();
      }
      table.expect_met(ticket);
      if (!offers) table.expect_filled(8, bytes, round);
    }
    me.barrier();
  });
  fleet.expect_success();
}

// Both come at once, many times, on several keys, in both directions: each use meets its own counterpart.
TEST(Rendezvous, KeepsUsesAndKeysApart) {
  static constexpr std::uint64_t kKeys = 4;
  static constexpr std::uint64_t kBytes = 256;
  static const std::uint64_t kRounds = reduced(200);
  Fleet fleet(2, [](Member& me) {
    Table table(me, 2 * kKeys * kBytes);
    const team::Rank other = 1 - me.index();
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      std::vector<Rendezvous::Ticket> tickets;
      for (std::uint64_t key = 0; key < kKeys; ++key) {
        table.fill(key * kBytes, kBytes, round + key);
        tickets.push_back(table.rendezvous.offer(*table.channel, key, other, {0, key * kBytes, kBytes}));
        tickets.push_back(table.rendezvous.claim(*table.channel, key, other, {0, (kKeys + key) * kBytes, kBytes}));
      }
      for (const Rendezvous::Ticket& ticket : tickets) table.expect_met(ticket);
      for (std::uint64_t key = 0; key < kKeys; ++key) table.expect_filled((kKeys + key) * kBytes, kBytes, round + key);
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A rank may meet itself.
TEST(Rendezvous, IsWithOneselfToo) {
  Fleet fleet(1, [](Member& me) {
    Table table(me, 64);
    table.fill(0, 32, 5);
    const auto claim = table.rendezvous.claim(*table.channel, 0, 0, {0, 32, 32});
    const auto offer = table.rendezvous.offer(*table.channel, 0, 0, {0, 0, 32});
    table.expect_met(claim);
    table.expect_met(offer);
    table.expect_filled(32, 32, 5);
  });
  fleet.expect_success();
}

// Places of unequal sizes: both ends are told, nothing is copied, and the key is as good as before.
TEST(Rendezvous, TellsBothThatSizesDiffer) {
  Fleet fleet(2, [](Member& me) {
    Table table(me, 64);
    table.fill(0, 64, me.index());
    for (const std::uint64_t bytes : {16, 32}) {
      const auto ticket = me.index() == 0 ? table.rendezvous.offer(*table.channel, 0, 1, {0, 0, 32})
                                          : table.rendezvous.claim(*table.channel, 0, 0, {0, 0, bytes});
      const Rendezvous::Copied result = table.rendezvous.wait(*table.channel, ticket, table.deadline());
      EXPECT_TRUE(result.status.done());
      EXPECT_EQ(result.sizes_differ, bytes != 32);
      table.expect_filled(0, 32, bytes == 32 ? 0 : me.index());
      me.barrier();
    }
  });
  fleet.expect_success();
}

// A key that this end has used is refused until that use has ended.
TEST(Rendezvous, RefusesAKeyThatIsOpenAndWhatThereIsNot) {
  Fleet fleet(2, [](Member& me) {
    Table table(me, 64);
    const Rendezvous::Place place{0, 0, 8};
    if (me.index() == 0) {
      const auto error_of = [&](std::uint64_t key, team::Rank to, const Rendezvous::Place& what) -> std::string {
        try {
          (void)table.rendezvous.offer(*table.channel, key, to, what);
        } catch (const Error& error) {
          return error.what();
        }
        return "";
      };
      const auto first = table.rendezvous.offer(*table.channel, 0, 1, place);
      EXPECT_THAT(error_of(0, 1, place), HasSubstr("has not ended"));
      EXPECT_THAT(error_of(16, 1, place), HasSubstr("16 keys"));
      EXPECT_THAT(error_of(1, 2, place), HasSubstr("2 ranks"));
      EXPECT_THAT(error_of(1, 1, {1, 0, 8}), HasSubstr("1 regions"));
      EXPECT_NE(error_of(1, 1, {0, 60, 8}), "");
      me.barrier();
      table.expect_met(first);
      table.expect_met(table.rendezvous.offer(*table.channel, 0, 1, place));
    } else {
      me.barrier();
      for (int round = 0; round < 2; ++round) {
        table.expect_met(table.rendezvous.claim(*table.channel, 0, 0, place));
      }
    }
    me.barrier();
  });
  fleet.expect_success();
}

// An end that has not met its peer can be withdrawn; then it never meets, and the key may be used again. One that has
// met cannot be withdrawn.
TEST(Rendezvous, IsWithdrawnOrMet) {
  Fleet fleet(2, [](Member& me) {
    Table table(me, 64);
    const Rendezvous::Place place{0, 0, 8};
    const auto begin = [&](bool offers) {
      return offers ? table.rendezvous.offer(*table.channel, 0, 1 - me.index(), place)
                    : table.rendezvous.claim(*table.channel, 0, 1 - me.index(), place);
    };
    for (const bool first_offers : {true, false}) {
      for (team::Rank first = 0; first < 2; ++first) {
        // `first` comes and goes, and then the other one does: they must not meet.
        for (team::Rank turn = 0; turn < 2; ++turn) {
          if (me.index() == (first + turn) % 2) {
            const auto ticket = begin(first_offers == (turn == 0));
            EXPECT_EQ(table.wait_a_moment(ticket), Outcome::timed_out);
            EXPECT_TRUE(table.rendezvous.withdraw(*table.channel, ticket, table.deadline()));
          }
          me.barrier();
        }
        const auto ticket = begin(first_offers == (me.index() == first));
        table.expect_met(ticket);
        EXPECT_FALSE(table.rendezvous.withdraw(*table.channel, ticket, table.deadline()));
        me.barrier();
      }
    }
  });
  fleet.expect_success();
}

// No other process helps: the second rank makes the transfer while the first rank's process is stopped, and is told of
// its end.
TEST(Rendezvous, MeetsWhoIsStopped) {
  if (!all_map_all()) GTEST_SKIP() << "elsewhere service threads take part";
  static constexpr std::uint64_t kBytes = 1'000'001;
  Shared<std::atomic<unsigned>> ready;
  Shared<std::atomic<bool>> stopped;
  Shared<std::atomic<bool>> met;
  Fleet fleet(2, [&](Member& me) {
    Table table(me, kBytes);
    const bool offers = me.index() == 0;
    if (offers) table.fill(0, kBytes, 1);
    std::optional<Rendezvous::Ticket> ticket;
    if (offers) {
      ticket = table.rendezvous.offer(*table.channel, 0, 1, {0, 0, kBytes});
      ASSERT_TRUE(table.comm.wait(*table.channel, ticket->request, table.deadline()).done());
    }
    ++*ready;
    if (!offers) {
      ASSERT_TRUE(eventually([&] { return stopped->load(); }));
      ticket = table.rendezvous.claim(*table.channel, 0, 0, {0, 0, kBytes});
    }
    table.expect_met(*ticket);
    table.expect_filled(0, kBytes, 1);
    *met = true;
    me.barrier();
  });
  ASSERT_TRUE(eventually([&] { return *ready == 2; }));
  fleet.stop(0);
  *stopped = true;
  EXPECT_TRUE(eventually([&] { return met->load(); }));
  fleet.signal(0, SIGCONT);
  fleet.expect_success();
}

// Who waits for a rank that dies is told who died.
TEST(Rendezvous, NamesWhoDied) {
  Survivors survivors;
  Fleet fleet(3, [&](Member& me) {
    Table table(me, 64);
    const bool offers = me.index() == 0;
    if (me.index() == 1) {
      me.barrier();
      ::raise(SIGKILL);
    }
    const auto ticket = offers ? table.rendezvous.offer(*table.channel, 0, 1, {0, 0, 8})
                               : table.rendezvous.claim(*table.channel, 0, 1, {0, 0, 8});
    me.barrier();
    const comm::Status status = table.rendezvous.wait(*table.channel, ticket, table.deadline()).status;
    EXPECT_EQ(status.outcome, Outcome::peer_lost);
    EXPECT_EQ(status.lost, 1u);
    survivors.leave_together(2);
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(2), 0);
}

}  // namespace
}  // namespace farside::test
