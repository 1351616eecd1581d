// A heap on the memory of nodes: what is freed goes back to them.
#include <cstdint>
#include <numeric>

#include <gtest/gtest.h>

#include "farside/far/heap.h"

#include "tests/far/lent_nodes.h"

namespace farside::far {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr PeerId kLoopback = 100;

TEST(AHeapOnNodes, GivesBackWhatIsFreed) {
  const auto fabric = make_lonely_fabric(1);
  LentNode node(*fabric, 0, {.slab_bytes = kMiB, .slabs = 32});
  auto space = std::make_unique<StripedSpace>(*fabric, kLoopback, SpaceShape{.bytes = 16 * kMiB, .slab_bytes = kMiB});
  space->slabs().add(node.join());
  const auto view = node.join();
  const auto channel = fabric->open_channel();
  const auto taken = [&] { return view->use(*channel, fabric->in(std::chrono::seconds(10))).value().taken; };

  Heap heap(std::move(space), {.local_bytes = 2 * kMiB});
  {
    far_vector<std::uint64_t> numbers(kMiB, heap);
    std::iota(numbers.begin(), numbers.end(), 1);
    EXPECT_GE(taken(), 5U);  // of 8 MiB at most 2 are here
  }
  EXPECT_LE(taken(), 2U);  // of which a part belonged to others
}

}  // namespace
}  // namespace farside::far
