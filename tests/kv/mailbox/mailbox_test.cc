// A client and a server process with a mailbox between them, over every fabric: what is sent comes back.
#include <numeric>

#include <gtest/gtest.h>
#include <malloc.h>

#include "kv/mailbox/served_mailbox.h"
#include "tests/support/mesh.h"

namespace farside::kv {
namespace {

using test::Fleet;
using test::Member;
using test::Mesh;

constexpr PeerId kServer = 0;
constexpr PeerId kClient = 1;
constexpr std::uint64_t kRing = 64;  // after the bell
constexpr std::string_view kLast = "last";
constexpr std::uint64_t kLittle = 8U << 20U;  // memory: half of a large message; UCX takes some for a link

MailboxEnd end_to(const Mesh& mesh, PeerId other) {
  const RemoteRegion& region = mesh.at(other);
  return {.own = mesh.local.get(),
          .own_offset = kRing,
          .other = &region,
          .other_offset = kRing,
          .by_memory = mesh.fabric->reaches_by_memory(other),
          .bell = region.word<AtomicWord>(0)};
}

Message some_bytes(std::size_t bytes, std::uint8_t first) {
  Message message(bytes);
  for (std::byte& each : message) each = std::byte{first++};
  return message;
}

/// By malloc, of this process; nothing under a sanitizer.
std::uint64_t allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// Sends back what comes, until it is asked to end.
void echo(const Mesh& mesh, const MailboxShape& shape, Waking waking) {
  ServedMailbox mailbox(*mesh.fabric, *mesh.channel, end_to(mesh, kClient), shape, waking);
  const auto bell = mesh.local->word<AtomicWord>(0);
  Deadline next_by = mesh.deadline();
  const std::uint64_t allocated = allocated_bytes();
  for (bool goes_on = true; goes_on;) {
    const std::uint64_t rung = bell.load();
    const ServedMailbox::Came came = mailbox.poll();
    if (came != ServedMailbox::Came::nothing) next_by = mesh.deadline();
    switch (came) {
      case ServedMailbox::Came::request: {
        Message message(mailbox.request().begin(), mailbox.request().end());
        goes_on = !std::ranges::equal(message, std::as_bytes(std::span(kLast)));
        if (!goes_on) {
          EXPECT_LT(allocated_bytes(), allocated + kLittle) << "of requests that were answered";
        }
        mailbox.reply(std::move(message));
        break;
      }
      case ServedMailbox::Came::piece: break;
      case ServedMailbox::Came::end: FAIL() << "the connection has ended";
      case ServedMailbox::Came::nothing: {
        if (mesh.fabric->now() >= next_by.at) FAIL() << "nothing came";
        const Deadline look = waking == Waking::polled ? mesh.fabric->in(std::chrono::milliseconds(1)) : next_by;
        (void)mesh.channel->wait_until(
            *mesh.local, bell, [rung](std::uint64_t now) { return now != rung; }, look);
      }
    }
  }
}

using Talk = std::function<void(MailboxRequests&, const Mesh&)>;

void talk_with_echo(const MailboxShape& shape, Waking waking, const Talk& talk) {
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = test::make_mesh(me, kRing + shape.ring_bytes());
    if (me.index() == kServer) {
      echo(mesh, shape, waking);
    } else {
      MailboxRequests requests(*mesh.fabric, *mesh.channel, {end_to(mesh, kServer)}, shape, waking);
      talk(requests, mesh);
      EXPECT_EQ(requests.send(0, std::as_bytes(std::span(kLast)), mesh.deadline()), Outcome::done);
      EXPECT_EQ(requests.receive(0, mesh.deadline()).status, Outcome::done);
    }
    me.barrier();
  });
  fleet.expect_success();
}

class KvMailbox : public testing::TestWithParam<Waking> {};

TEST_P(KvMailbox, CarriesEverySizeAroundTheBordersOfASlot) {
  constexpr MailboxShape kShape{.slots = 4, .slot_bytes = 256};
  talk_with_echo(kShape, GetParam(), [&](MailboxRequests& requests, const Mesh& mesh) {
    std::vector<std::size_t> sizes{0, 1, 7, 8, 9};
    for (const std::size_t pieces : {1u, 2u, 7u}) {
      for (int more = -9; more <= 9; ++more) sizes.push_back(pieces * kShape.piece_bytes() + more);
    }
    for (const std::size_t bytes : sizes) {
      const Message message = some_bytes(bytes, 3);
      ASSERT_EQ(requests.send(0, message, mesh.deadline()), Outcome::done);
      const auto reply = requests.receive(0, mesh.deadline());
      ASSERT_EQ(reply.status, Outcome::done);
      ASSERT_EQ(reply.value, message) << bytes << " bytes";
    }
  });
}

// More than there are slots, some of them in pieces: the replies come in the order of the requests.
TEST_P(KvMailbox, AnswersManyUnderWayInTheirOrder) {
  constexpr MailboxShape kShape{.slots = 4, .slot_bytes = 256};
  constexpr std::uint8_t kMany = 60;
  const auto message = [](std::uint8_t number) { return some_bytes(number % 7 == 0 ? 1000 : number, number); };
  talk_with_echo(kShape, GetParam(), [&](MailboxRequests& requests, const Mesh& mesh) {
    for (std::uint8_t i = 0; i < kMany; ++i) {
      ASSERT_EQ(requests.send(0, message(i), mesh.deadline()), Outcome::done);
    }
    for (std::uint8_t i = 0; i < kMany; ++i) {
      const auto reply = requests.receive(0, mesh.deadline());
      ASSERT_EQ(reply.status, Outcome::done);
      ASSERT_EQ(reply.value, message(i)) << "number " << int{i};
    }
  });
}

TEST_P(KvMailbox, CarriesTheLargestValueWithItsKey) {
  talk_with_echo({}, GetParam(), [&](MailboxRequests& requests, const Mesh& mesh) {
    const Message message = some_bytes((16U << 20U) + (64U << 10U) + 200, 9);
    // Under the thread sanitizer it takes ten seconds, on a busy machine a minute.
    const auto large = [&mesh] { return mesh.fabric->in(test::extended(std::chrono::minutes(3))); };
    ASSERT_EQ(requests.send(0, message, large()), Outcome::done);
    const auto reply = requests.receive(0, large());
    ASSERT_EQ(reply.status, Outcome::done);
    ASSERT_TRUE(reply.value == message);
  });
}

INSTANTIATE_TEST_SUITE_P(Both, KvMailbox, testing::Values(Waking::polled, Waking::doorbell), [](const auto& waking) {
  return std::string(waking.param == Waking::polled ? "Polled" : "Doorbell");
});

}  // namespace
}  // namespace farside::kv
