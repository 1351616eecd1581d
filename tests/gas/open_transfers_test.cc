// Transfers that were begun and not finished: an exception takes their buffers with it, and other calls are refused.
#include <algorithm>
#include <csignal>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <vector>

#include <sys/wait.h>

#include "farside/base/error.h"
#include "farside/gas/patch.h"

#include "tests/gas/place.h"

namespace farside::test {
namespace {

using Array = gas::GlobalArray<std::uint64_t>;

constexpr std::uint64_t kElements = 512U << 10U;  // 4 MiB: more than a stopped host takes in
constexpr std::uint64_t kOld = 1;
constexpr std::uint64_t kNew = 2;
constexpr std::uint64_t kFreed = 3;

/// How an exception leaves while something is under way.
struct Exception {
  const char* name;
  std::function<void(Array&)> leave;
};
void PrintTo(const Exception& tested, std::ostream* out) { *out << tested.name; }

void begin_what_there_is_not(Array& array) {
  std::uint64_t one = 0;
  array.begin_get(kElements, std::span(&one, 1));
}
void begin_beyond_the_pages(Array& array) {
  std::uint64_t one = 0;
  array.pages().begin_put({kElements, 0, LocalSpan(one)});
}
void call_what_is_refused(Array& array) { (void)array.own(0, 1); }
void report_although_open(Array& array) { (void)array.report(); }
void balance_although_open(Array& array) { (void)array.balance(); }
void copy_although_open(Array& array) { (void)array.copy(0, array, {kElements, 1}); }
void throw_by_itself(Array& /*array*/) { throw std::runtime_error("as the test wants it"); }

/// Two ranks; rank 1 has all pages, and is stopped from when `at_rank_0` calls the function it is given until that
/// calls it again.
void with_a_stopped_owner(const std::function<void(Array&, const std::function<void()>& go_on)>& at_rank_0) {
  Shared<std::atomic<unsigned>> step;
  const auto reach = [&](unsigned wanted) { ASSERT_TRUE(eventually([&] { return *step >= wanted; })); };
  Fleet fleet(2, [&](Member& me) {
    Seat seat(me);
    gas::GlobalArrayOptions options = small_pages([](auto, auto, auto) { return team::Rank{1}; });
    options.page_bytes = 1U << 20U;
    Array array(seat.comm, kElements, options);
    if (me.index() == 0) {
      const std::vector<std::uint64_t> old(kElements, kOld);
      ASSERT_TRUE(array.put(0, std::span<const std::uint64_t>(old)).done());
      *step = 1;
      reach(2);
      at_rank_0(array, [&] {
        *step = 3;
        reach(4);
      });
    }
    meet(seat);
  });
  reach(1);
  fleet.stop(1);
  *step = 2;
  reach(3);
  fleet.signal(1, SIGCONT);
  *step = 4;
  const int status = fleet.wait(0);
  if (!all_map_all() && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) {
    GTEST_SKIP() << "UCX used a connection that it had freed: docs/protocols/fabric_ucx.md, Limits";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  fleet.expect_success();
}

class OpenTransfersOf : public testing::TestWithParam<Exception> {};
INSTANTIATE_TEST_SUITE_P(All, OpenTransfersOf,
                         testing::Values(Exception{"BeginOfWhatThereIsNot", begin_what_there_is_not},
                                         Exception{"BeginBeyondThePages", begin_beyond_the_pages},
                                         Exception{"RefusedCall", call_what_is_refused},
                                         Exception{"RefusedReport", report_although_open},
                                         Exception{"RefusedBalance", balance_although_open},
                                         Exception{"RefusedCopy", copy_although_open},
                                         Exception{"AnothersException", throw_by_itself}),
                         [](const auto& tested) { return tested.param.name; });

// The owner does not answer, so what was begun is still under way when the exception leaves. Then it answers.
TEST_P(OpenTransfersOf, LeaveAGetsBufferAloneAfterAnException) {
  with_a_stopped_owner([](Array& array, const std::function<void()>& go_on) {
    std::vector<std::uint64_t> buffer(kElements);
    EXPECT_ANY_THROW({
      const gas::OpenTransfers open(array.pages());
      array.begin_get(0, buffer);
      GetParam().leave(array);
    });
    std::ranges::fill(buffer, kFreed);
    go_on();
    std::uint64_t one = 0;
    ASSERT_TRUE(array.get(kElements - 1, std::span(&one, 1)).done());
    EXPECT_EQ(one, kOld);
    EXPECT_EQ(std::ranges::count(buffer, kFreed), std::ssize(buffer)) << "something has come into freed memory";
  });
}

TEST_P(OpenTransfersOf, SendNothingFromFreedMemoryAfterAnException) {
  with_a_stopped_owner([](Array& array, const std::function<void()>& go_on) {
    std::vector<std::uint64_t> buffer(kElements, kNew);
    EXPECT_ANY_THROW({
      const gas::OpenTransfers open(array.pages());
      array.begin_put(0, buffer);
      GetParam().leave(array);
    });
    std::ranges::fill(buffer, kFreed);
    go_on();
    std::vector<std::uint64_t> found(kElements);
    ASSERT_TRUE(array.get(0, found).done());
    EXPECT_EQ(std::ranges::count(found, kFreed), 0) << "freed memory was sent";
  });
}

// More puts than there are holds, whose deadlines pass while the owner is stopped. When it goes on, the page can be put
// to and moved, and no rank was evicted.
TEST(PutsThatWereGivenUp, KeepNoHoldForGood) {
  static constexpr int kPuts = 300;
  with_a_stopped_owner([](Array& array, const std::function<void()>& go_on) {
    Fabric& fabric = array.pages().pages().team().fabric();
    std::uint64_t value = kNew;
    const gas::PagePart part{0, 0, LocalSpan(value)};
    for (int put = 0; put < kPuts; ++put) {
      const comm::Status status = array.pages().put(part, fabric.in(std::chrono::milliseconds(1)));
      ASSERT_NE(status.outcome, Outcome::peer_lost);
    }
    go_on();
    ASSERT_TRUE(array.put(0, std::span<const std::uint64_t>(&value, 1)).done());
    const gas::Moved moved = array.own(0, 1);
    EXPECT_TRUE(moved.status.done());
    EXPECT_EQ(moved.pages, 1U);
    std::uint64_t found = 0;
    ASSERT_TRUE(array.get(0, std::span(&found, 1)).done());
    EXPECT_EQ(found, kNew);
    EXPECT_TRUE(array.pages().pages().team().alive(1));
  });
}

// Each call that would end or endanger what is under way. Afterwards nothing is, and the array goes on.
TEST(OpenTransfers, AreNoTimeForOtherCalls) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    Array array(seat.comm, 64, small_pages(gas::blocked()));
    std::vector<std::uint64_t> buffer(40);
    std::vector<std::uint64_t> some(20);
    const std::span<const std::uint64_t> source(some);
    const std::vector<std::uint64_t> indices = {1, 50};
    const std::vector<std::function<void()>> calls = {
        [&] { (void)array.get(0, std::span(some).first(1)); },
        [&] { (void)array.get(0, some); },
        [&] { (void)array.put(0, source.first(1)); },
        [&] { (void)array.put(0, source); },
        [&] { (void)array.gather(indices, std::span(some).first(2)); },
        [&] { (void)array.scatter(indices, source.first(2)); },
        [&] { (void)array.fill(0, 20, 1); },
        [&] { (void)array.fetch_add(3, 1); },
        [&] { (void)array.compare_swap(3, 0, 1); },
        [&] { (void)array.own(0, 1); },
        [&] {
          (void)array.locality({0, 20});
        },
        [&] { (void)array.pin(3); },
        [&] { (void)array.pages().channel(); },
        [&] { array[3] = 1; },
        [&] {
          (void)gas::get_patch(array, gas::Shape<2>{8, 8}, gas::Patch<2>{{0, 0}, {2, 2}}, std::span(some).first(4));
        },
    };
    meet(seat);
    for (std::size_t call = 0; call < calls.size(); ++call) {
      array.begin_get(0, buffer);
      EXPECT_THROW(calls[call](), UsageError) << call;
      EXPECT_FALSE(array.pages().is_open()) << call;
      array.begin_put(0, std::span<const std::uint64_t>(buffer));
      EXPECT_THROW(calls[call](), UsageError) << call;
      EXPECT_TRUE(array.finish().done()) << call;
      EXPECT_NO_THROW(calls[call]()) << call;
    }
    meet(seat);
  });
  fleet.expect_success();
}

// Puts that were ended by an exception have let go of their pages, so that others can move them.
TEST(OpenTransfers, DoNotHoldTheirPagesAfterAnException) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    Array array(seat.comm, 64, small_pages(gas::blocked()));
    std::vector<std::uint64_t> buffer(64, kNew);
    if (me.index() == 0) {
      array.begin_put(0, std::span<const std::uint64_t>(buffer));
      EXPECT_THROW(begin_what_there_is_not(array), UsageError);
    }
    meet(seat);
    if (me.index() == 1) {
      const gas::Moved moved = array.own(0, 64);
      EXPECT_TRUE(moved.status.done());
      EXPECT_EQ(moved.pages, 4U);
    }
    meet(seat);
    EXPECT_TRUE(seat.team.alive(1 - me.index()));
    meet(seat);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
