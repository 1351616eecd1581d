// What a primary ships to its standby (src/kv/replication/shipping_journal.h) over a network of which one thing is
// known: how many bytes it carries in a second.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kv/replication/shipping_journal.h"
#include "sim/world.h"

namespace farside::sim {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kMebibyte = 1U << 20U;

/// Nothing that takes longer than it is given comes to an end.
class NarrowChannel final : public Channel {
 public:
  bool flushes = true;  ///< otherwise each flush times out

  NarrowChannel(Fabric& fabric, std::uint64_t bytes_per_s) : fabric_(fabric), bytes_per_s_(bytes_per_s) {}

  Outcome flush(PeerId /*peer*/, Deadline deadline) override {
    if (!flushes) fabric_.sleep(deadline.at - fabric_.now());
    return flushes ? Outcome::done : Outcome::timed_out;
  }
  Outcome fence(PeerId /*peer*/, Deadline /*deadline*/) override { return Outcome::done; }
  Outcome flush_all(Deadline /*deadline*/) override { return Outcome::done; }
  Outcome flush_each(std::span<const PeerId> /*peers*/, Deadline /*deadline*/) override { return Outcome::done; }
  void local_fence() override {}
  Outcome write_signals(std::span<const RemoteWord<ControlWord>> /*words*/, std::uint64_t /*value*/,
                        Deadline /*deadline*/) override {
    return Outcome::done;
  }
  Result<std::uint64_t> add_signal(RemoteWord<AtomicWord> /*word*/, std::uint64_t /*addend*/,
                                   Deadline /*deadline*/) override {
    return {};
  }

 private:
  void post(const Operation& operation, Completion& completion) override {
    bytes_ += operation.bytes;
    ++completion.pending;
  }
  void finish(Completion& completion, Deadline deadline) override {
    const Duration takes = seconds(1) * bytes_ / bytes_per_s_;
    const Duration has = deadline.at - fabric_.now();
    fabric_.sleep(std::min(takes, has));
    if (takes > has) completion.outcome = Outcome::timed_out;
    completion.pending = 0;
    bytes_ = 0;
  }
  Outcome wait_change(const Region& /*region*/, std::uint64_t /*offset*/, std::uint64_t /*seen*/, Deadline /*deadline*/,
                      const Awaited& /*awaited*/) override {
    return Outcome::timed_out;
  }
  [[nodiscard]] std::uint64_t lives_of(std::span<const PeerId> /*peers*/) const override { return 0; }

  Fabric& fabric_;
  const std::uint64_t bytes_per_s_;
  std::uint64_t bytes_ = 0;  ///< of what was posted since the last `finish`
};

void with_journal(std::uint64_t bytes_per_s, const std::function<void(kv::ShippingJournal&, NarrowChannel&)>& use) {
  World world(1, 2, Network{});
  world.on(0, [&] {
    Fabric& fabric = world.fabric(0);
    const auto memory = world.fabric(1).create_region("ring", 8 * kMebibyte);
    const auto ring = fabric.attach(1, memory->handle());
    NarrowChannel channel(fabric, bytes_per_s);
    kv::ShippingJournal journal(
        fabric, channel, kv::ShippingJournal::Way{ring.get()}, [] { return false; }, [] { return std::nullopt; });
    use(journal, channel);
  });
  EXPECT_TRUE(world.run(std::chrono::hours(1)));
}

/// How often a primary tries to ship a change of so many bytes until it is there; 0: it is not after ten times.
int attempts_to_ship(std::uint64_t bytes, std::uint64_t bytes_per_s) {
  int attempts = 0;
  with_journal(bytes_per_s, [&](kv::ShippingJournal& journal, NarrowChannel&) {
    journal.append(std::vector<std::byte>(bytes), {});
    for (int attempt = 1; attempt <= 10 && attempts == 0; ++attempt) attempts = journal.sync() ? attempt : 0;
  });
  return attempts;
}

TEST(KvShipping, HasTimeInProportionToWhatIsShipped) {
  EXPECT_EQ(attempts_to_ship(kMebibyte / 4, 2 * kMebibyte), 1);
  EXPECT_EQ(attempts_to_ship(7 * kMebibyte, 2 * kMebibyte), 1);
}

// As over UCX, where a WRITE completes when its bytes are with the system.
TEST(KvShipping, EndsWhenItsWritesCompleteAndNoFlushDoes) {
  with_journal(kMebibyte, [](kv::ShippingJournal& journal, NarrowChannel& channel) {
    channel.flushes = false;
    journal.append(std::vector<std::byte>(kMebibyte / 4), {});
    EXPECT_FALSE(journal.sync());
    channel.flushes = true;
    EXPECT_TRUE(journal.sync());
  });
}

// There is room for the first half of a frame whose other half is a single byte. Its place holds that byte already:
// there began a frame whose position ends with it. So the standby finds the frame whole, and takes it.
TEST(KvShipping, GoesOnWhenAFrameWasTakenBeforeItsLastByteWasWritten) {
  constexpr std::uint64_t kFrame = 64;
  constexpr std::byte kPositionOfTheSecond{kFrame};
  World world(1, 2, Network{});
  world.on(0, [&] {
    Fabric& fabric = world.fabric(0);
    const auto memory = world.fabric(1).create_region("ring", kv::ShippingRing::kFrames + 4 * kFrame);
    const auto ring = fabric.attach(1, memory->handle());
    const auto channel = fabric.open_channel();
    kv::ShippingJournal journal(
        fabric, *channel, kv::ShippingJournal::Way{ring.get()}, [] { return false; }, [] { return std::nullopt; });
    const auto take = [&](std::uint64_t position) {
      const auto taken = ring->word<ControlWord>(kv::ShippingRing::kTaken);
      EXPECT_EQ(channel->store(taken, position, fabric.in(seconds(1))), Outcome::done);
    };
    journal.append(std::vector<std::byte>(152), {});  // 160 bytes with the entry's head: four frames
    EXPECT_TRUE(journal.sync());
    take(kFrame);
    journal.append({}, {});                                   // half a frame
    journal.append(std::span(&kPositionOfTheSecond, 1), {});  // 9 bytes: 8 of them fit into the half that has room
    EXPECT_FALSE(journal.sync());
    take(4 * kFrame + kFrame / 2 + kFrame);
    EXPECT_TRUE(journal.sync());
  });
  EXPECT_TRUE(world.run(std::chrono::hours(1)));
}

TEST(KvShipping, HasMoreAndMoreTimeOnASlowNetwork) { EXPECT_EQ(attempts_to_ship(7 * kMebibyte, kMebibyte), 2); }

// A mebibyte at a quarter of a mebibyte in a second. What the store counts begins with the loss, not with the copy.
TEST(KvShipping, TeachesAStandbyAtTheRateThatIsSet) {
  World world(1, 2, Network{});
  world.on(0, [&] {
    Fabric& fabric = world.fabric(0);
    const auto memory = world.fabric(1).create_region("ring", 8 * kMebibyte);
    const auto ring = fabric.attach(1, memory->handle());
    const auto stores_memory = fabric.create_region("store", 4 * kMebibyte);
    const auto channel = fabric.open_channel();
    kv::Store store(fabric, *channel, *stores_memory, {.bytes = 4 * kMebibyte});
    const std::string value(64U << 10U, 'v');
    for (std::uint64_t key = 0; key < 16; ++key) {
      const std::string name = std::to_string(key);
      const std::vector<kv::Write> writes{{name, value}};
      ASSERT_EQ(store.put({key + 1, 1}, writes, {}).answer, kv::Answer::done);
    }
    kv::ShippingJournal journal(
        fabric, *channel, {}, [] { return false; }, [] { return std::nullopt; }, {},
        {.min_copies = 2, .bytes_per_second = kMebibyte / 4});
    EXPECT_FALSE(journal.has_enough_copies());
    fabric.sleep(seconds(10));
    const Time begin = fabric.now();
    journal.teach({ring.get()}, store, 0, [] { return true; });
    while (journal.standing() == kv::ShippingJournal::Standing::taught) {
      const kv::MemoryUse use = journal.with_state({});
      EXPECT_EQ(use.copies, kv::Copies::copying);
      EXPECT_EQ(use.degraded_s, static_cast<std::uint32_t>((fabric.now() - begin) / seconds(1)) + 10);
      (void)journal.step();
      fabric.sleep(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(journal.standing(), kv::ShippingJournal::Standing::full);
    EXPECT_TRUE(journal.has_enough_copies());
    EXPECT_EQ(journal.with_state({}).copies, kv::Copies::both);
    const Duration took = fabric.now() - begin;
    EXPECT_GE(took, seconds(3));  // the last quarter is shipped with the end
    EXPECT_LE(took, seconds(5));
  });
  EXPECT_TRUE(world.run(std::chrono::hours(1)));
}

}  // namespace
}  // namespace farside::sim
