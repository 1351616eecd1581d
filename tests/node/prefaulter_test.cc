#include "node/prefaulter.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "farside/fabric/fabric.h"

namespace farside::node {
namespace {

constexpr std::uint64_t kBlockBytes = 1U << 20U;
constexpr std::uint64_t kSlots = 150;
constexpr std::uint64_t kPageBytes = 4096;

// Slots of a node, looked at from outside.
class PrefaulterOfManySlots : public ::testing::Test {
 protected:
  PrefaulterOfManySlots()
      : fabric_(make_host_fabric({.mode = FabricMode::direct})),
        region_(fabric_->create_region("slots", layout_.region_bytes)),
        prefaulter_(*region_, layout_) {}

  [[nodiscard]] std::uint64_t taken(std::uint64_t offset, std::uint64_t bytes) const {
    std::vector<unsigned char> pages(bytes / kPageBytes);
    EXPECT_EQ(::mincore(region_->span(offset, bytes).adapter_data(), bytes, pages.data()), 0);
    return kPageBytes * static_cast<std::uint64_t>(
                            std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; }));
  }
  [[nodiscard]] bool becomes_taken(std::uint64_t first_slot, std::uint64_t slots) const {
    const std::uint64_t stride = cache::slot_stride(kBlockBytes);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    while (taken(layout_.slots_offset + first_slot * stride, slots * stride) < slots * stride) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  [[nodiscard]] std::uint64_t taken() const { return taken(0, layout_.region_bytes); }

  const cache::CacheLayout layout_{.block_bytes = kBlockBytes,
                                   .slot_count = kSlots,
                                   .slots_offset = 8 * kPageBytes,
                                   .index_offset = 0,
                                   .index_buckets = 1,
                                   .region_bytes = 8 * kPageBytes + kSlots * cache::slot_stride(kBlockBytes)};
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Region> region_;
  Prefaulter prefaulter_;
};

// The first blocks find memory; what is not soon to be used is left to the machine.
TEST_F(PrefaulterOfManySlots, TakesTheFirstSlotsAndNotTheRest) {
  ASSERT_TRUE(becomes_taken(0, 48));
  EXPECT_LT(taken(), layout_.region_bytes * 2 / 3);
}

// However fast blocks come in, the thread gets ahead of them, and goes back to what they overtook.
TEST_F(PrefaulterOfManySlots, GetsAheadOfTheBlocksAndTakesWhatTheyOvertook) {
  prefaulter_.used(60);
  EXPECT_TRUE(becomes_taken(0, 110));
  EXPECT_LT(taken(), layout_.region_bytes);
}

TEST_F(PrefaulterOfManySlots, EndsWithTheLastSlot) {
  prefaulter_.used(kSlots - 1);
  EXPECT_TRUE(becomes_taken(0, kSlots));
}

}  // namespace
}  // namespace farside::node
