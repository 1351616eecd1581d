// What comes out of a ring comes from a peer: what a receiver does with bytes that are no message.
#include "comm/protocol/message_rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/in_process_team.h"
#include "tests/support/interposed_channel.h"

namespace farside::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t kHandlers = 2;
constexpr std::size_t kPayloadBytes = 16;

// Rank 0 sends to rank 1, each step when the test wants it.
class MessageRingsOfTwo : public testing::Test {
 protected:
  MessageRingsOfTwo() {
    const auto no_wakeup = [](Channel&, team::Rank, Deadline) { return Outcome::done; };
    const comm::MessageRings::Shape shape{
        .handlers = kHandlers, .places = 4, .payload_bytes = kPayloadBytes, .outbox = 4};
    on_all_ranks(2, [&](team::Rank rank) {
      rings_[rank] = std::make_unique<comm::MessageRings>(*teams_[rank], "messages", shape, no_wakeup);
    });
    channel_.before_each([this](const Operation& operation) {
      receiver_ = operation.region;
      if (alter_) alter_(std::span(operation.local, operation.bytes));
    });
  }
  ~MessageRingsOfTwo() override { channel_.before_each({}); }

  void send(std::uint64_t word, std::uint32_t handler = 0) {
    const std::vector<std::byte> payload(kPayloadBytes, std::byte{1});
    EXPECT_EQ(rings_[0]->leave(1, comm::make_record(handler, {word}, payload)), Outcome::done);
    EXPECT_EQ(rings_[0]->carry(channel_, 1), Outcome::done);
  }
  /// What arrives at rank 1: the messages' first words.
  std::vector<std::uint64_t> receive() {
    std::vector<std::uint64_t> words;
    rings_[1]->receive(*receivers_,
                       [&](const comm::MessageRings::Arrived& arrived) { words.push_back(arrived.words[0]); });
    return words;
  }

  std::vector<std::unique_ptr<InProcessTeam>> teams_ = make_teams(2);
  std::array<std::unique_ptr<comm::MessageRings>, 2> rings_;
  InterposedChannel channel_{teams_[0]->fabric().open_channel()};
  std::unique_ptr<Channel> receivers_ = teams_[1]->fabric().open_channel();
  std::function<void(std::span<std::byte>)> alter_;  ///< what is written, in the sender's buffer
  const RemoteRegion* receiver_ = nullptr;           ///< the memory of rank 1
};

// Any altered byte of a record, be it a length, a number or the payload, costs that message and no other.
TEST_F(MessageRingsOfTwo, RefuseARecordWithAnyByteAltered) {
  for (std::size_t at = 0; at < sizeof(comm::MessageHeader) + kPayloadBytes; ++at) {
    const bool in_header = at < sizeof(comm::MessageHeader);
    alter_ = [&](std::span<std::byte> written) {
      if (in_header && written.size() == sizeof(comm::MessageHeader)) written[at] ^= std::byte{0x80};
      if (!in_header && written.size() == kPayloadBytes) written[at - sizeof(comm::MessageHeader)] ^= std::byte{0x80};
    };
    send(1);
    alter_ = {};
    send(2);
    EXPECT_THAT(receive(), ElementsAre(2)) << "byte " << at;
    EXPECT_EQ(rings_[1]->refused(), at + 1);
  }
}

// The checksum of a record may be right, and its handler none.
TEST_F(MessageRingsOfTwo, RefuseAHandlerThatDoesNotExist) {
  send(1, kHandlers);
  send(2, kHandlers - 1);
  EXPECT_THAT(receive(), ElementsAre(2));
  EXPECT_EQ(rings_[1]->refused(), 1u);
}

// A tail that cannot be leads nowhere; once it can be, what is there is delivered.
TEST_F(MessageRingsOfTwo, RefuseATailBeyondTheRing) {
  send(1);
  const auto tail = receiver_->word<ControlWord>(0);
  const auto plain = teams_[0]->fabric().open_channel();
  const Deadline soon = teams_[0]->fabric().in(std::chrono::seconds(20));
  for (const std::uint64_t nonsense : {std::uint64_t{5}, ~std::uint64_t{0}}) {
    ASSERT_EQ(plain->store(tail, nonsense, soon), Outcome::done);
    EXPECT_THAT(receive(), IsEmpty());
  }
  EXPECT_EQ(rings_[1]->refused(), 2u);
  ASSERT_EQ(plain->store(tail, 1, soon), Outcome::done);
  EXPECT_THAT(receive(), ElementsAre(1));
}

}  // namespace
}  // namespace farside::test
