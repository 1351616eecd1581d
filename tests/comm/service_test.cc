// What the service thread survives, and what it refuses to wait for.
#include <atomic>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"
#include "farside/comm/barrier.h"
#include "farside/comm/collectives.h"
#include "farside/comm/messages.h"
#include "farside/comm/rendezvous.h"

#include "tests/comm/seat.h"

namespace farside::test {
namespace {

using testing::HasSubstr;

/// What `act` throws; empty when nothing.
template <class Exception, class Act>
std::string thrown_text(Act act) {
  try {
    act();
  } catch (const Exception& thrown) {
    return thrown.what();
  }
  return "";
}

/// Keeps a service thread busy until it is opened or goes.
class Gate {
 public:
  comm::Request close(Seat& seat) {
    return seat.comm.in_background(*seat.channel, [opened = opened_.get_future().share()](Channel&, Deadline) {
      EXPECT_EQ(opened.wait_for(kTimeout), std::future_status::ready);
      return comm::Status{};
    });
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

// Each wait for a task that threw throws it, on any thread and again; what was issued after it is done.
TEST(ServiceThread, GoesOnAfterATaskThatThrows) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("words", 8);
    const comm::Request threw = seat.comm.in_background(
        *seat.channel, [](Channel&, Deadline) -> comm::Status { throw std::runtime_error("a task that throws"); });
    const comm::Request number = seat.comm.in_background(
        *seat.channel, [](Channel&, Deadline) -> comm::Status { throw 5; });  // no std::exception
    std::uint64_t value = 7;
    const comm::Request after = seat.comm.in_background(*seat.channel, [&](Channel& by, Deadline deadline) {
      const team::Rank to = 1 - me.index();
      const Outcome written = by.write(memory->of(to).span(0, 8), LocalSpan(value), deadline);
      return comm::status_with(written == Outcome::done ? by.flush(to, deadline) : written, to);
    });
    const auto wait_for = [&](const comm::Request& request) {
      const auto channel = seat.comm.open_channel();
      return seat.comm.wait(*channel, request, seat.deadline());
    };
    EXPECT_TRUE(wait_for(after).done());
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(thrown_text<std::runtime_error>([&] { (void)wait_for(threw); }), "a task that throws");
      EXPECT_THROW((void)wait_for(number), int);
    }
    std::thread([&] { EXPECT_THROW((void)wait_for(seat.comm.issued()), std::runtime_error); }).join();
    EXPECT_TRUE(seat.comm.finished(seat.comm.issued()));
    me.barrier();
    EXPECT_EQ(memory->local().word<ControlWord>(0).load(), 7U);
  });
  fleet.expect_success();
}

// What is called on each ring and throws keeps neither the others nor tasks from being done.
TEST(ServiceThread, GoesOnAfterWorkOnARingThatThrows) {
  Fleet fleet(1, [](Member& me) {
    std::atomic<unsigned> threw = 0;  // called as long as the Comm lives
    std::atomic<unsigned> called = 0;
    Seat seat(me);
    seat.comm.on_ring([&](Channel&) {
      ++threw;
      throw std::runtime_error("work that throws");
    });
    seat.comm.on_ring([&](Channel&) { ++called; });
    for (unsigned round = 1; round <= 3; ++round) {
      EXPECT_EQ(seat.comm.ring(*seat.channel, 0, seat.deadline()), Outcome::done);
      EXPECT_TRUE(eventually([&] { return threw >= round && called >= round; }));
    }
    const comm::Request task =
        seat.comm.in_background(*seat.channel, [](Channel&, Deadline) { return comm::Status{}; });
    EXPECT_TRUE(seat.comm.wait(*seat.channel, task, seat.deadline()).done());
  });
  fleet.expect_success();
}

// The operator runs at the member that comes last, on its service thread: its wait throws, and the other one's ends at
// its deadline. Both processes go on.
TEST(ServiceThread, GoesOnAfterAnOperatorThatThrows) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    comm::Collectives group(seat.comm);
    Gate gate;
    (void)gate.close(seat);  // so that both arrive in the background
    const auto refuse = [](std::uint64_t, std::uint64_t) -> std::uint64_t { throw std::overflow_error("too large"); };
    std::vector<std::uint64_t> values(2);
    if (me.index() == 0) me.barrier();  // the other one has arrived
    auto sum = group.begin_all_reduce(*seat.channel, std::span(values), seat.deadline(), refuse);
    gate.open();
    if (me.index() == 0) {
      EXPECT_EQ(thrown_text<std::overflow_error>([&] { (void)sum.end(*seat.channel, seat.deadline()); }), "too large");
      EXPECT_THROW((void)sum.end(*seat.channel, seat.deadline()), std::overflow_error) << "when asked again";
    } else {
      EXPECT_TRUE(seat.comm.wait(*seat.channel, seat.comm.issued(), seat.deadline()).done());
      me.barrier();
    }
    me.barrier();
    if (me.index() == 1) {
      EXPECT_EQ(sum.end(*seat.channel, seat.team.fabric().in(std::chrono::milliseconds(10))).outcome,
                Outcome::timed_out);
    }
    const comm::Request task =
        seat.comm.in_background(*seat.channel, [](Channel&, Deadline) { return comm::Status{}; });
    EXPECT_TRUE(seat.comm.wait(*seat.channel, task, seat.deadline()).done());
    me.barrier();
  });
  fleet.expect_success();
}

/// Work on a ring that the service thread does not return from until it is opened.
class Block {
 public:
  explicit Block(Seat& seat) : seat_(seat) {
    seat_.comm.on_ring([this](Channel&) {
      entered_ = true;
      EXPECT_TRUE(eventually([this] { return opened_.load(); }));
    });
    EXPECT_TRUE(eventually([this] { return entered_.load(); }));
  }
  void open() { opened_ = true; }

 private:
  Seat& seat_;
  std::atomic<bool> entered_ = false;
  std::atomic<bool> opened_ = false;
};

// Large ones, which are handed over. It takes no more than it waits for, and the service thread does the rest.
TEST(AWaiter, MakesCopiesOfMappedMemoryItself) {
  Fleet fleet(2, [](Member& me) {
    constexpr std::uint64_t kBytes = comm::Comm::kInlineBytes + 8;
    std::optional<Block> block;  // its work is called as long as the Comm lives
    Seat seat(me);
    const auto memory = seat.team.allocate("copied", 3 * kBytes);
    if (me.index() == 0 && seat.team.fabric().reaches_by_memory(1)) {
      std::vector<std::byte> bytes(kBytes, std::byte{7});
      const auto put = [&](std::uint64_t place) {
        return seat.comm.put(*seat.channel, memory->of(1).span(place * kBytes, kBytes),
                             LocalSpan(bytes.data(), bytes.size()));
      };
      block.emplace(seat);
      const comm::Request first = put(0);
      const comm::Request second = put(1);
      const comm::Request third = put(2);
      EXPECT_TRUE(seat.comm.wait(*seat.channel, second, seat.deadline()).done());
      EXPECT_TRUE(seat.comm.finished(first));
      EXPECT_FALSE(seat.comm.finished(third));
      block->open();
      EXPECT_TRUE(eventually([&] { return seat.comm.finished(third); })) << "the service thread was not woken";
      std::vector<std::byte> seen(3 * kBytes);
      EXPECT_EQ(
          seat.channel->read(LocalSpan(seen.data(), seen.size()), memory->of(1).span(0, seen.size()), seat.deadline()),
          Outcome::done);
      EXPECT_EQ(seen, std::vector<std::byte>(3 * kBytes, std::byte{7}));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// They are made in the order of issue, and what stands before them may wait for others.
TEST(AWaiter, LeavesTasksToTheServiceThread) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    constexpr std::uint64_t kBytes = comm::Comm::kInlineBytes + 8;
    const auto memory = seat.team.allocate("copied", kBytes);
    std::vector<std::byte> bytes(kBytes);
    Gate gate;
    (void)gate.close(seat);
    const comm::Request put =
        seat.comm.put(*seat.channel, memory->of(1 - me.index()).span(0, kBytes), LocalSpan(bytes.data(), bytes.size()));
    EXPECT_EQ(seat.comm.wait(*seat.channel, put, seat.team.fabric().in(std::chrono::milliseconds(20))).outcome,
              Outcome::timed_out);
    EXPECT_FALSE(seat.comm.finished(put));
    gate.open();
    EXPECT_TRUE(seat.comm.wait(*seat.channel, put, seat.deadline()).done());
    me.barrier();
  });
  fleet.expect_success();
}

// Each takes what it finds; each operation is done once, and each wait hears of its own.
TEST(AWaiter, SharesTheQueueWithOthers) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    constexpr std::uint64_t kBytes = comm::Comm::kInlineBytes + 8;
    constexpr unsigned kThreads = 4;
    constexpr unsigned kRounds = 50;
    const auto memory = seat.team.allocate("copied", 64 + kThreads * kBytes);
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        const auto channel = seat.comm.open_channel();
        std::vector<std::byte> bytes(kBytes, std::byte{static_cast<unsigned char>(thread)});
        const RemoteRegion& target = memory->of(1 - me.index());
        for (unsigned round = 0; round < kRounds; ++round) {
          const comm::Request put =
              seat.comm.put(*channel, target.span(64 + thread * kBytes, kBytes), LocalSpan(bytes.data(), bytes.size()),
                            comm::AddToWord{target.word<AtomicWord>(0), 1});
          EXPECT_TRUE(seat.comm.wait(*channel, put, seat.deadline()).done());
        }
      });
    }
    threads.clear();
    me.barrier();
    EXPECT_EQ(memory->local().word<AtomicWord>(0).load(), kThreads * kRounds);
    EXPECT_EQ(seat.comm.traffic(1 - me.index()).operations, kThreads * kRounds) << "of threads that have ended";
    EXPECT_EQ(seat.comm.traffic(1 - me.index()).bytes, kThreads * kRounds * kBytes);
    me.barrier();
  });
  fleet.expect_success();
}

// A handler that would wait for what its own thread is to do is told so at once, and what it began is done.
TEST(ServiceThread, RefusesToWaitForItself) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    comm::Barrier barrier(seat.comm);
    comm::Rendezvous rendezvous(seat.comm, {});
    const auto memory = seat.team.allocate("copied", comm::Comm::kInlineBytes + 8);
    std::vector<std::byte> bytes(comm::Comm::kInlineBytes + 8);
    std::promise<std::vector<std::string>> refusals;
    comm::Request put;
    comm::Barrier::Begun begun{};
    std::promise<comm::Messages*> made;  // a message may arrive before the constructor has returned
    const std::shared_future<comm::Messages*> messages = made.get_future().share();
    const auto handler = [&](comm::Messages::Call& call) {
      const auto channel = seat.comm.open_channel();
      put = seat.comm.put(*channel, memory->of(call.source()).span(0, bytes.size()),
                          LocalSpan(bytes.data(), bytes.size()));
      begun = barrier.begin(*channel, seat.deadline());
      std::vector<std::string> texts;
      texts.push_back(thrown_text<UsageError>([&] { (void)seat.comm.wait(*channel, put, seat.deadline()); }));
      texts.push_back(thrown_text<UsageError>([&] { (void)barrier.wait(*channel, begun.number, seat.deadline()); }));
      texts.push_back(thrown_text<UsageError>([&] {
        (void)messages.get()->send(*channel, call.source(), {0, {}, {}}, seat.deadline());
      }));
      refusals.set_value(texts);
    };
    comm::Messages of_this_rank(seat.comm, {handler});
    made.set_value(&of_this_rank);
    if (me.index() == 1) {
      auto told = refusals.get_future();
      ASSERT_EQ(told.wait_for(kTimeout / 2), std::future_status::ready) << "it waits";
      const std::vector<std::string> texts = told.get();
      EXPECT_THAT(texts[0], HasSubstr("service thread"));
      EXPECT_THAT(texts[1], HasSubstr("service thread"));
      EXPECT_THAT(texts[2], HasSubstr("Call"));
      EXPECT_TRUE(seat.comm.wait(*seat.channel, put, seat.deadline()).done());
      EXPECT_TRUE(barrier.wait(*seat.channel, begun.number, seat.deadline()).done());
    } else {
      ASSERT_TRUE(of_this_rank.send(*seat.channel, 1, {0, {}, {}}, seat.deadline()).done());
      EXPECT_TRUE(barrier.pass(*seat.channel, seat.deadline()).done());
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
