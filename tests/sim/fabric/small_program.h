// small_program.h — processes of which a part runs in every order.
#pragma once

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "sim/explore.h"
#include "sim/world.h"

namespace farside::sim {

inline constexpr std::uint64_t kMaxSchedules = 200'000;
inline constexpr Duration kLong = std::chrono::seconds(10);

// All that the model allows and that is not about time.
inline Network harsh(std::uint32_t grain_bytes = 8) {
  Network network;
  network.grain_bytes = grain_bytes;
  network.stores_twice = false;  // drawn at random, and there is no chance here
  network.lands_late = false;
  network.stalls_before_posting = false;
  network.needs_calls_for_progress = false;
  network.clocks_drift = false;
  network.interleaves_accesses = false;  // too many schedules
  network.replaces_links = false;
  network.flushes_replace_links = false;
  network.answers_late = false;
  network.clocks_stop = false;
  network.misses_plain_writes = false;
  network.revokes_slowly = false;
  return network;
}

// Processes whose first part, in which they set up what they have in common, runs in one order, and whose second part
// runs in every order.
class Small {
 public:
  Small(team::Rank processes, const Network& network) : world(1, processes, network) {}

  using Part = std::function<void(team::Rank)>;
  void run(Chooser& chooser, const Part& set_up, const std::vector<std::function<void()>>& parts) {
    for (team::Rank rank = 0; rank < world.size(); ++rank) {
      world.on(rank, [&set_up, rank] { set_up(rank); });
    }
    EXPECT_TRUE(world.run(kLong));
    settle();
    world.scheduler().choose_by(chooser);
    for (team::Rank rank = 0; rank < parts.size(); ++rank) world.on(rank, parts[rank]);
    (void)world.run(kLong);
    settle();
  }

  World world;

 private:
  void settle() { world.scheduler().settle(world.scheduler().now() + kLong); }
};

}  // namespace farside::sim
