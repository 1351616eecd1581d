// What active messages promise, between real processes.
#include "farside/comm/messages.h"

#include <algorithm>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "tests/comm/seat.h"
#include "tests/support/reduced.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using comm::Messages;

using testing::HasSubstr;

/// A handler's, watched by its program.
using Count = std::atomic<std::uint64_t>;

[[nodiscard]] bool reaches(const Count& count, std::uint64_t value) {
  return eventually([&] { return count.load() >= value; });
}

std::vector<std::byte> pattern(std::uint64_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::uint64_t at = 0; at < bytes; ++at) made[at] = static_cast<std::byte>(at * 7 + bytes);
  return made;
}

// Every payload arrives whole with its words, from every rank to every rank, itself included.
TEST(Messages, ArriveWhole) {
  static constexpr std::array<std::uint64_t, 6> kSizes{0, 1, 7, 8, 65, 512};
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    Count arrived = 0;
    const auto check = [&](Messages::Call& call) {
      const Messages::Words expected{call.source(), call.payload().size(), 2, 3, ~0ULL};
      EXPECT_EQ(call.words(), expected);
      EXPECT_TRUE(std::ranges::equal(call.payload(), pattern(call.payload().size())));
      ++arrived;
    };
    Messages messages(seat.comm, {check});
    for (const std::uint64_t bytes : kSizes) {
      const std::vector<std::byte> payload = pattern(bytes);
      for (team::Rank to = 0; to < me.count(); ++to) {
        const comm::Status sent =
            messages.send(*seat.channel, to, {0, {me.index(), bytes, 2, 3, ~0ULL}, payload}, seat.deadline());
        EXPECT_TRUE(sent.done());
      }
    }
    EXPECT_TRUE(reaches(arrived, kSizes.size() * me.count()));
    me.barrier();
  });
  fleet.expect_success();
}

// The receiver's program makes no call while its handler runs.
TEST(Messages, RunWhileTheProgramComputes) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    Count answers = 0;
    Messages messages(seat.comm, {[](Messages::Call& call) {
                                    EXPECT_TRUE(call.reply({1, {}, {}}).done());
                                  },
                                  [&](Messages::Call&) { ++answers; }});
    if (me.index() == 0) {
      for (std::uint64_t round = 1; round <= 20; ++round) {
        ASSERT_TRUE(messages.send(*seat.channel, 1, {0, {}, {}}, seat.deadline()).done());
        ASSERT_TRUE(reaches(answers, round));
      }
    }
    me.barrier();
  });
  fleet.expect_success();
}

// All ranks send to all at once, through rings of two places, and every handler replies and forwards. No rank gets
// stuck, everything arrives, and in order for each pair of ranks.
TEST(Messages, FloodFromAllToAllArrivesInOrder) {
  static constexpr team::Rank kRanks = 4;
  static const std::uint64_t kEach = reduced(300);  // from each program to each rank
  static constexpr std::uint32_t kAsk = 0;
  static constexpr std::uint32_t kAnswer = 1;
  static constexpr std::uint32_t kPassedOn = 2;
  Fleet fleet(kRanks, [](Member& me) {
    Seat seat(me);
    std::array<std::array<std::uint64_t, kRanks>, 3> sent{};  // by handler and rank; the service thread's but for kAsk
    std::array<std::array<std::uint64_t, kRanks>, 3> came{};
    Count arrived = 0;
    const auto note = [&](std::uint32_t handler, const Messages::Call& call) {
      EXPECT_EQ(call.words()[0], ++came[handler][call.source()]);
      ++arrived;
    };
    const auto send_on = [&](Messages::Call& call, team::Rank to, std::uint32_t handler) {
      EXPECT_TRUE(call.send(to, {handler, {++sent[handler][to]}, {}}).done());
    };
    const auto ask = [&](Messages::Call& call) {
      note(kAsk, call);
      send_on(call, call.source(), kAnswer);
      send_on(call, (call.source() + 1) % kRanks, kPassedOn);
    };
    Messages messages(
        seat.comm,
        {ask, [&](Messages::Call& call) { note(kAnswer, call); }, [&](Messages::Call& call) { note(kPassedOn, call); }},
        {.places = 2, .payload_bytes = 8, .outbox = static_cast<std::uint32_t>(2 * kRanks * kEach)});
    for (std::uint64_t round = 1; round <= kEach; ++round) {
      for (team::Rank to = 0; to < kRanks; ++to) {
        ASSERT_TRUE(messages.send(*seat.channel, to, {kAsk, {++sent[kAsk][to]}, {}}, seat.deadline()).done());
      }
    }
    EXPECT_TRUE(reaches(arrived, 3 * kRanks * kEach)) << arrived.load();
    me.barrier();
    EXPECT_EQ(arrived, 3 * kRanks * kEach);
    EXPECT_EQ(messages.counters().refused, 0u);
  });
  fleet.expect_success();
}

// Threads of one process that send to one receiver share its ring.
TEST(Messages, OfSeveralThreadsAllArrive) {
  static constexpr std::uint64_t kThreads = 3;
  static const std::uint64_t kEach = reduced(500);
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    Count arrived = 0;
    std::array<std::uint64_t, kThreads> last{};
    Messages messages(seat.comm, {[&](Messages::Call& call) {
                        EXPECT_EQ(call.words()[1], ++last.at(call.words()[0]));
                        ++arrived;
                      }},
                      {.places = 4, .payload_bytes = 8, .outbox = 4});
    {
      std::vector<std::jthread> threads;
      for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          const auto channel = seat.comm.open_channel();
          for (std::uint64_t number = 1; number <= kEach; ++number) {
            ASSERT_TRUE(messages.send(*channel, 1 - me.index(), {0, {thread, number}, {}}, seat.deadline()).done());
          }
        });
      }
    }
    EXPECT_TRUE(reaches(arrived, kThreads * kEach)) << arrived.load();
    me.barrier();
  });
  fleet.expect_success();
}

/// Opened by one member of a test for another.
using Gate = Shared<std::atomic<bool>>;

// A program that sends more than is taken waits, and is told in time; what it was told is true.
TEST(Messages, WaitForRoomUntilTheDeadline) {
  static constexpr std::uint32_t kPlaces = 4;
  const Gate gate;
  Fleet fleet(2, [&](Member& me) {
    Seat seat(me);
    std::vector<std::uint64_t> came;
    Count arrived = 0;
    Messages messages(seat.comm, {[&](Messages::Call& call) {
                        EXPECT_TRUE(eventually([&] { return gate->load(); }));
                        came.push_back(call.words()[0]);
                        ++arrived;
                      }},
                      {.places = kPlaces, .payload_bytes = 8, .outbox = 8});
    if (me.index() == 0) {
      std::uint64_t number = 0;
      comm::Status status;
      do {
        status =
            messages.send(*seat.channel, 1, {0, {++number}, {}}, seat.team.fabric().in(std::chrono::milliseconds(100)));
      } while (status.done() && number < 100);
      EXPECT_EQ(status.outcome, Outcome::timed_out);
      EXPECT_GT(number, kPlaces);
      *gate = true;
      ASSERT_TRUE(messages.send(*seat.channel, 1, {0, {number}, {}}, seat.deadline()).done());
      me.exchange(std::to_string(number));
    } else {
      const std::uint64_t last = std::stoull(me.exchange({})[0]);
      EXPECT_TRUE(reaches(arrived, last));
    }
    me.barrier();
    for (std::uint64_t at = 0; at < came.size(); ++at) EXPECT_EQ(came[at], at + 1);
  });
  fleet.expect_success();
}

// A handler never waits: when the outbox is full it is told, and what it was told is true.
TEST(Messages, TellAHandlerWhenTheOutboxIsFull) {
  static constexpr std::uint32_t kPlaces = 2;
  static constexpr std::uint32_t kOutbox = 5;
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    Count accepted = 0;
    Count arrived = 0;
    Messages messages(seat.comm,
                      {[&](Messages::Call& call) {
                         comm::Status status;
                         while ((status = call.reply({1, {}, {}})).done()) ++accepted;
                         EXPECT_EQ(status.outcome, Outcome::timed_out);
                       },
                       [&](Messages::Call&) { ++arrived; }},
                      {.places = kPlaces, .payload_bytes = 8, .outbox = kOutbox});
    if (me.index() == 0) {
      ASSERT_TRUE(messages.send(*seat.channel, 1, {0, {}, {}}, seat.deadline()).done());
      EXPECT_TRUE(reaches(arrived, kPlaces + kOutbox));
    }
    me.barrier();
    EXPECT_EQ(accepted, me.index() == 1 ? kPlaces + kOutbox : 0u);
    EXPECT_EQ(arrived, me.index() == 0 ? kPlaces + kOutbox : 0u);
  });
  fleet.expect_success();
}

// A handler that throws harms no other handler: those after it are run.
TEST(Messages, GoOnAfterAHandlerThatThrows) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    Count arrived = 0;
    Messages messages(seat.comm, {[](Messages::Call&) { throw std::runtime_error("as the test wants it"); },
                                  [](Messages::Call& call) {
                                    (void)call.reply({9, {}, {}});
                                  },  // no such handler
                                  [&](Messages::Call&) { ++arrived; }});
    for (std::uint32_t handler = 0; handler < 3; ++handler) {
      ASSERT_TRUE(messages.send(*seat.channel, 1 - me.index(), {handler, {}, {}}, seat.deadline()).done());
    }
    EXPECT_TRUE(reaches(arrived, 1));
    EXPECT_TRUE(eventually([&] { return messages.counters().delivered == 3; }));
    EXPECT_EQ(messages.counters().failed, 2u);
    me.barrier();
  });
  fleet.expect_success();
}

// What cannot be right is refused where it is said.
TEST(Messages, AreRefusedToAnUnknownRankAndWhenTooLarge) {
  Fleet fleet(1, [](Member& me) {
    Seat seat(me);
    Messages messages(seat.comm, {[](Messages::Call&) {}}, {.places = 2, .payload_bytes = 8, .outbox = 2});
    const std::vector<std::byte> large(9);
    const auto error_of = [&](team::Rank to, const Messages::Message& message) -> std::string {
      try {
        (void)messages.send(*seat.channel, to, message, seat.deadline());
      } catch (const UsageError& error) {
        return error.what();
      }
      return "";
    };
    EXPECT_THAT(error_of(0, {1, {}, {}}), HasSubstr("handler 1 of 1"));
    EXPECT_THAT(error_of(1, {0, {}, {}}), HasSubstr("there are 1 ranks"));
    EXPECT_THAT(error_of(0, {0, {}, large}), HasSubstr("at most 8"));
    EXPECT_THROW(Messages(seat.comm, {}, {.places = 0}), UsageError);
  });
  fleet.expect_success();
}

// Who waits for room at a rank that dies is told who died; the others' messages go on.
TEST(Messages, NameWhoDiedAndGoOnAmongTheLiving) {
  const Gate gate;
  Survivors survivors;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    Count arrived = 0;
    const auto die = [&](Messages::Call&) {
      EXPECT_TRUE(eventually([&] { return gate->load(); }));
      ::raise(SIGKILL);
    };
    Messages messages(seat.comm, {die, [&](Messages::Call&) { ++arrived; }},
                      {.places = 2, .payload_bytes = 8, .outbox = 2});
    if (me.index() == 0) {
      comm::Status status;
      for (int number = 0; number < 4; ++number) {  // as many as the ring and the outbox take in any case
        ASSERT_TRUE(messages.send(*seat.channel, 1, {0, {}, {}}, seat.deadline()).done());
      }
      *gate = true;
      do {
        status = messages.send(*seat.channel, 1, {0, {}, {}}, seat.deadline());
      } while (status.done());
      EXPECT_EQ(status.outcome, Outcome::peer_lost);
      EXPECT_EQ(status.lost, 1u);
    }
    if (me.index() == 1) std::this_thread::sleep_for(std::chrono::minutes(1));  // dies in its handler
    const team::Rank other = 2 - me.index();
    for (int number = 0; number < 50; ++number) {
      ASSERT_TRUE(messages.send(*seat.channel, other, {1, {}, {}}, seat.deadline()).done());
    }
    EXPECT_TRUE(reaches(arrived, 50));
    survivors.leave_together(2);
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(2), 0);
}

}  // namespace
}  // namespace farside::test
