// One direction of a mailbox, each step when the test wants it: what counts as a parcel, and who is refused.
#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "kv/mailbox/served_mailbox.h"
#include "tests/support/descriptors.h"

namespace farside::kv {
namespace {

using Kind = ParcelHead::Kind;
using Came = ServedMailbox::Came;

constexpr MailboxShape kShape{.slots = 2, .slot_bytes = 96};

Message some_bytes(std::size_t bytes) {
  Message message(bytes);
  std::uint8_t value = 1;
  for (std::byte& each : message) each = std::byte{value++};
  return message;
}

std::span<const std::byte> piece(std::size_t bytes) {
  static const Message all = some_bytes(24);
  return std::span(all).first(bytes);
}

// Both sides in one process: the rings go out to, and come in from, the same memory.
class KvMailboxRing : public testing::Test {
 protected:
  KvMailboxRing() {
    fabric_->connect(0, fabric_->address());
    for (auto* memory : {&servers_, &clients_}) {
      memory->region = fabric_->create_region("ring", kShape.ring_bytes());
      memory->remote = fabric_->attach(0, memory->region->handle());
    }
    server_ = end(servers_, clients_);
    client_ = end(clients_, servers_);
  }

  struct Memory {
    std::unique_ptr<Region> region;
    std::unique_ptr<RemoteRegion> remote;
  };
  static MailboxEnd end(const Memory& own, const Memory& other) {
    return {
        .own = own.region.get(), .own_offset = 0, .other = other.remote.get(), .other_offset = 0, .by_memory = true};
  }
  [[nodiscard]] Deadline soon() const { return fabric_->in(std::chrono::seconds(20)); }

  std::unique_ptr<Fabric> fabric_ = make_host_fabric({.mode = FabricMode::direct});
  std::unique_ptr<Channel> channel_ = fabric_->open_channel();
  Memory servers_;
  Memory clients_;
  MailboxEnd server_;
  MailboxEnd client_;
};

// The words of a WRITE come in any order, over whatever was in the slot before.
TEST_F(KvMailboxRing, TakesNothingBeforeTheLastWordIsThere) {
  const Message old = some_bytes(40);
  Message changed = old;
  changed.back() = std::byte{0};
  const Message young = changed;
  MailboxSender sender(*fabric_, *channel_, client_, kShape, {}, {});
  std::vector<std::vector<std::byte>> slots;
  for (const Message* each : {&old, &old, &young}) {  // the first and the third lie in one slot
    ASSERT_EQ(sender.make_ready(soon()), Outcome::done);
    ASSERT_EQ(sender.send({}, *each, soon()), Outcome::done);
    slots.emplace_back(kShape.slot_bytes);
    servers_.region->copy_out(kShape.slot_offset(slots.size()), slots.back());
  }
  std::vector<std::size_t> words;
  for (std::size_t at = 0; at < kShape.slot_bytes; at += 8) {
    if (!std::equal(&slots[0][at], &slots[0][at] + 8, &slots[2][at])) words.push_back(at);
  }
  ASSERT_GE(words.size(), 4u);
  do {
    MailboxReceiver receiver(server_, kShape, {});
    servers_.region->copy_in(kShape.slot_offset(1), slots[0]);
    servers_.region->copy_in(kShape.slot_offset(2), slots[1]);
    ASSERT_TRUE(receiver.take());
    ASSERT_TRUE(receiver.take());
    for (const std::size_t at : words) {
      EXPECT_FALSE(receiver.take());
      servers_.region->copy_in(kShape.slot_offset(3) + at, std::span(slots[2]).subspan(at, 8));
    }
    const auto parcel = receiver.take();
    ASSERT_TRUE(parcel);
    EXPECT_TRUE(std::ranges::equal(parcel->piece, young));
  } while (std::ranges::next_permutation(words).found);
}

// A header that is whole may still say what no sender would.
TEST_F(KvMailboxRing, RefusesALengthBeyondTheSlot) {
  constexpr MailboxShape kLarger{.slots = 2, .slot_bytes = 192};  // what the sender believes
  const auto region = fabric_->create_region("larger", kLarger.ring_bytes());
  const auto remote = fabric_->attach(0, region->handle());
  MailboxEnd larger = client_;
  larger.other = remote.get();
  MailboxSender sender(*fabric_, *channel_, larger, kLarger, {}, {});
  ASSERT_EQ(sender.send({}, some_bytes(kShape.piece_bytes() + 1), soon()), Outcome::done);
  std::vector<std::byte> slot(kShape.slot_bytes);
  region->copy_out(kLarger.slot_offset(1), slot);
  servers_.region->copy_in(kShape.slot_offset(1), slot);
  EXPECT_FALSE(MailboxReceiver(server_, kShape, {}).take());
}

TEST_F(KvMailboxRing, RefusesAShapeInWhichNothingFits) {
  for (const MailboxShape& shape : {MailboxShape{.slots = 0}, {.slots = 1, .slot_bytes = 32}, {1, 100}}) {
    EXPECT_THROW(MailboxReceiver(server_, shape, {}), UsageError);
    EXPECT_THROW(MailboxSender(*fabric_, *channel_, server_, shape, {}, {}), UsageError);
  }
}

// A client may send anything; it ends its own connection, and that one only.
TEST_F(KvMailboxRing, EndsWithAClientThatIsOutOfItsMind) {
  const std::vector<std::vector<Parcel>> mad = {
      {{{Kind::fetch, 0}, {}}},                                       // of no reply
      {{{Kind::go_on, 0}, piece(8)}},                                 // of no request
      {{{static_cast<Kind>(3), 0}, {}}},                              //
      {{{Kind::begin, kMaxMessageBytes}, piece(8)}},                  // too long
      {{{Kind::begin, (1ULL << 56U) - 1}, piece(8)}},                 //
      {{{Kind::begin, 16}, piece(8)}, {{Kind::go_on, 9}, piece(8)}},  // of another length than it began
      {{{Kind::begin, 16}, piece(8)}, {{Kind::go_on, 0}, piece(24)}},
      {{{Kind::begin, 16}, piece(8)}, {{Kind::go_on, 16}, {}}},
  };
  for (const auto& parcels : mad) {
    for (std::uint64_t slot = 1; slot <= kShape.slots; ++slot) {
      servers_.region->copy_in(kShape.slot_offset(slot), std::vector<std::byte>(kShape.slot_bytes));
    }
    MailboxSender sender(*fabric_, *channel_, client_, kShape, {}, {});
    ServedMailbox served(*fabric_, *channel_, server_, kShape, Waking::polled);
    Came came = Came::nothing;
    for (const Parcel& parcel : parcels) {
      EXPECT_NE(came, Came::end);
      ASSERT_EQ(sender.send(parcel.head, parcel.piece, soon()), Outcome::done);
      came = served.poll();
    }
    EXPECT_EQ(came, Came::end);
    EXPECT_EQ(served.poll(), Came::end);
  }
}

// And so may a server.
TEST_F(KvMailboxRing, TakesAServerThatIsOutOfItsMindForLost) {
  const std::vector<std::vector<Parcel>> mad = {
      {{{Kind::go_on, 0}, {}}},
      {{{Kind::fetch, 0}, {}}},
      {{{Kind::begin, kMaxMessageBytes}, piece(8)}},
      {{{Kind::begin, 16}, piece(8)}, {{Kind::begin, 0}, piece(16)}},
      {{{Kind::begin, 16}, piece(8)}, {{Kind::go_on, 8}, piece(16)}},
      {{{Kind::begin, 16}, piece(8)}, {{Kind::go_on, 16}, {}}},
  };
  for (const auto& parcels : mad) {
    for (std::uint64_t slot = 1; slot <= kShape.slots; ++slot) {
      clients_.region->copy_in(kShape.slot_offset(slot), std::vector<std::byte>(kShape.slot_bytes));
    }
    MailboxSender sender(*fabric_, *channel_, server_, kShape, {}, {});
    MailboxRequests requests(*fabric_, *channel_, {client_}, kShape, Waking::polled);
    ASSERT_EQ(requests.send(0, some_bytes(8), soon()), Outcome::done);
    for (const Parcel& parcel : parcels) ASSERT_EQ(sender.send(parcel.head, parcel.piece, soon()), Outcome::done);
    EXPECT_EQ(requests.receive(0, soon()).status, Outcome::peer_lost);
    EXPECT_EQ(requests.send(0, some_bytes(8), soon()), Outcome::peer_lost);
  }
}

TEST_F(KvMailboxRing, RefusesARequestThatIsTooLong) {
  MailboxRequests requests(*fabric_, *channel_, {client_}, kShape, Waking::polled);
  EXPECT_THROW((void)requests.send(0, Message(kMaxMessageBytes + 1), soon()), UsageError);
  EXPECT_FALSE(MailboxReceiver(server_, kShape, {}).take());
}

TEST_F(KvMailboxRing, HasNothingToReceiveUnlessSomethingWasSent) {
  MailboxRequests requests(*fabric_, *channel_, {client_}, kShape, Waking::polled);
  EXPECT_THROW((void)requests.receive(0, soon()), UsageError);
}

// Who gave up waiting gets the replies to what it asks later, and never the one that came late.
TEST_F(KvMailboxRing, SkipsAReplyThatComesTooLate) {
  MailboxRequests requests(*fabric_, *channel_, {client_}, kShape, Waking::polled);
  ServedMailbox served(*fabric_, *channel_, server_, kShape, Waking::polled);
  ASSERT_EQ(requests.send(0, some_bytes(1), soon()), Outcome::done);
  EXPECT_EQ(requests.receive(0, fabric_->in(std::chrono::milliseconds(1))).status, Outcome::timed_out);
  ASSERT_EQ(requests.send(0, some_bytes(2), soon()), Outcome::done);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(served.poll(), Came::request);
    served.reply(Message(served.request().begin(), served.request().end()));
  }
  const auto reply = requests.receive(0, soon());
  ASSERT_EQ(reply.status, Outcome::done);
  EXPECT_EQ(reply.value, some_bytes(2));
}

// A slot is used again when the answer to what was in it was taken, and not before.
TEST_F(KvMailboxRing, WaitsForASlotWhoseAnswerHasNotCome) {
  MailboxRequests requests(*fabric_, *channel_, {client_}, kShape, Waking::polled);
  ASSERT_EQ(requests.send(0, some_bytes(1), soon()), Outcome::done);
  ASSERT_EQ(requests.send(0, some_bytes(2), soon()), Outcome::done);
  EXPECT_EQ(requests.send(0, some_bytes(3), fabric_->in(std::chrono::milliseconds(1))), Outcome::timed_out);
  ServedMailbox served(*fabric_, *channel_, server_, kShape, Waking::polled);
  for (const std::size_t bytes : {1u, 2u}) {
    ASSERT_EQ(served.poll(), Came::request);
    EXPECT_EQ(served.request().size(), bytes);
    served.reply({});
  }
  EXPECT_EQ(served.poll(), Came::nothing);
  ASSERT_EQ(requests.send(0, some_bytes(4), soon()), Outcome::done);
  ASSERT_EQ(served.poll(), Came::request);
  EXPECT_EQ(served.request().size(), 4u);
}

TEST_F(KvMailboxRing, EndsWithALostPeer) {
  MailboxRequests requests(*fabric_, *channel_, {client_}, kShape, Waking::polled);
  ASSERT_EQ(requests.send(0, some_bytes(1), soon()), Outcome::done);
  fabric_->mark_lost(0);
  EXPECT_EQ(requests.receive(0, soon()).status, Outcome::peer_lost);
  EXPECT_EQ(requests.send(0, some_bytes(1), soon()), Outcome::peer_lost);
}

// A server has thousands of mailboxes, through most of which little goes.
TEST_F(KvMailboxRing, TakesNoMoreMemoryThanGoesThroughIt) {
  constexpr std::size_t kMailboxes = 2000;
  constexpr MailboxShape kLarge{};
  const std::uint64_t before = farside::test::resident_bytes();
  std::vector<std::unique_ptr<MailboxSender>> senders;
  std::vector<std::unique_ptr<MailboxReceiver>> receivers;
  for (std::size_t i = 0; i < kMailboxes; ++i) {
    senders.push_back(
        std::make_unique<MailboxSender>(*fabric_, *channel_, client_, kLarge, MailboxSender::Ring{}, MailboxRules{}));
    receivers.push_back(std::make_unique<MailboxReceiver>(client_, kLarge, MailboxRules{}));
  }
  EXPECT_LT(farside::test::resident_bytes() - before, kMailboxes * kLarge.slot_bytes / 4);
}

}  // namespace
}  // namespace farside::kv
