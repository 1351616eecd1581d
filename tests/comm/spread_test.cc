// What tells a receiver to pass a broadcast on comes from a peer: what it does when that cannot be.
#include "comm/protocol/spread.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/in_process_team.h"
#include "tests/support/interposed_channel.h"

namespace farside::test {
namespace {

using team::Rank;

constexpr Rank kSender = 0;
constexpr Rank kReceiver = 1;  // which passes on
constexpr Rank kChild = 3;     // of the receiver
constexpr Rank kRanks = 4;
constexpr std::uint64_t kData = 64;
constexpr std::uint64_t kPieceBytes = 16;
constexpr std::uint64_t kBytes = 2 * kPieceBytes + 8;
constexpr std::uint64_t kBehind = 4 * kPieceBytes;  // of the program's, which is not of the broadcast
constexpr std::uint64_t kMemoryBytes = kData + kBytes + kBehind;
constexpr std::uint64_t kMaxPieces = (1U << 24U) - 1;  // that a sender can claim

/// One broadcast by rank 0 to all others, each step when the test wants it. Each rank's memory has bytes of its own.
class SpreadOfFour : public testing::Test {
 protected:
  SpreadOfFour() {
    const auto no_wakeup = [](Channel&, Rank, Deadline) { return Outcome::done; };
    on_all_ranks(kRanks, [&](Rank rank) {
      memories_[rank] = teams_[rank]->allocate("memory", kMemoryBytes);
      memories_[rank]->local().copy_in(kData, std::vector(kMemoryBytes - kData, std::byte(rank + 1)));
      const std::vector<const team::SymmetricRegion*> known{memories_[rank].get()};
      const comm::Spread::Options options{.piece_bytes = kPieceBytes};
      spreads_[rank] = std::make_unique<comm::Spread>(*teams_[rank], "spread", known, no_wakeup, options);
    });
    channel_.before_each([this](const Operation& operation) {
      if (operation.bytes != sizeof(comm::Spread::Order)) return;
      if (operation.region->peer() == kReceiver) receivers_words_ = operation.region;
      if (alter_) alter_(operation.local);
    });
  }
  ~SpreadOfFour() override { channel_.before_each({}); }

  void send() {
    const comm::Spread::Order order{
        .number = 0, .region = 0, .offset = kData, .bytes = kBytes, .signal = 0, .value = 7};
    spreads_[kSender]->begin(order, memories_[kSender]->of(kSender).span(kData, kBytes), {1, 2, 3});
    (void)spreads_[kSender]->go_on(channel_);
    ASSERT_NE(receivers_words_, nullptr);
  }
  /// In the receiver's word for the sender, in which the first broadcast has `pieces`.
  void claim(std::uint64_t pieces) {
    const std::uint64_t given = std::uint64_t{1} << 24U | pieces;
    ASSERT_EQ(channel_.store(receivers_words_->word<ControlWord>(0), given, soon()), Outcome::done);
  }
  void serve(Rank rank) {
    const auto channel = teams_[rank]->fabric().open_channel();
    spreads_[rank]->serve(*channel);
  }

  [[nodiscard]] Deadline soon() { return teams_[kSender]->fabric().in(std::chrono::seconds(30)); }
  [[nodiscard]] std::uint64_t signal(Rank rank) const { return memories_[rank]->local().word<ControlWord>(0).load(); }
  /// Whether the bytes of `rank` there are those that `owner` had in the beginning.
  [[nodiscard]] bool are_of(Rank owner, Rank rank, std::uint64_t offset, std::uint64_t bytes) const {
    std::vector<std::byte> found(bytes);
    memories_[rank]->local().copy_out(offset, found);
    return std::ranges::all_of(found, [owner](std::byte each) { return each == std::byte(owner + 1); });
  }

  std::vector<std::unique_ptr<InProcessTeam>> teams_ = make_teams(kRanks);
  std::array<std::unique_ptr<team::SymmetricRegion>, kRanks> memories_;
  std::array<std::unique_ptr<comm::Spread>, kRanks> spreads_;
  InterposedChannel channel_{teams_[kSender]->fabric().open_channel()};
  std::function<void(std::byte*)> alter_;          ///< each order, in the sender's buffer
  const RemoteRegion* receivers_words_ = nullptr;  ///< once something was sent
};

// Of a sender that claims to have given more pieces than the broadcast has, those alone are passed on: nothing of the
// receiver's memory behind them is written to its child's.
TEST_F(SpreadOfFour, PassesOnNoMorePiecesThanThereAre) {
  send();
  claim(kMaxPieces);
  EXPECT_NO_THROW(serve(kReceiver));
  serve(kChild);
  for (const Rank rank : {kReceiver, kChild}) {
    EXPECT_EQ(signal(rank), 7U) << "rank " << rank << " was not told";
    EXPECT_TRUE(are_of(kSender, rank, kData, kBytes)) << "rank " << rank << " lacks data";
    EXPECT_TRUE(are_of(rank, rank, kData + kBytes, kBehind)) << "what is behind it at rank " << rank << " was changed";
  }
}

// A broadcast that is larger than the receiver's memory, or is signalled outside of it, is none.
TEST_F(SpreadOfFour, RefusesWhatDoesNotFitIntoItsMemory) {
  alter_ = [](std::byte* bytes) {
    comm::Spread::Order order{};
    std::memcpy(&order, bytes, sizeof order);
    order.bytes = kMemoryBytes - kData + 8;
    std::memcpy(bytes, &order, sizeof order);
  };
  send();
  claim(kMaxPieces);
  EXPECT_NO_THROW(serve(kReceiver));
  serve(kChild);
  EXPECT_EQ(signal(kReceiver), 0U);
  EXPECT_EQ(signal(kChild), 0U);
  EXPECT_TRUE(are_of(kChild, kChild, kData, kMemoryBytes - kData)) << "it was passed on";
}

}  // namespace
}  // namespace farside::test
