// disturbance.h — faults in runs of comm's protocols: processes that stop or die, and links that are cut, for longer
// than timeouts.
#pragma once

#include <memory>

#include "sim/world.h"

namespace farside::sim {

/// Drawn for half of the seeds. Where there is one, an operation may fail, but nothing may be wrong.
struct Disturbance {
  int stops = 0;       ///< of processes, each as long as `longest` at most
  int cuts = 0;        ///< of links in one direction, the same
  int deaths = 0;      ///< of any process
  Duration longest{};  ///< some last longer than `timeout`
  Duration timeout{};  ///< of each call

  static Disturbance draw(Scheduler& dice, Duration usual_timeout) {
    if (!dice.one_in(2)) return {.timeout = usual_timeout};
    const Duration timeout = std::chrono::microseconds(100) + dice.up_to(std::chrono::milliseconds(1));
    return {.stops = static_cast<int>(dice.random() % 8),
            .cuts = static_cast<int>(dice.random() % 8),
            .longest = 3 * timeout,
            .timeout = timeout};
  }
  [[nodiscard]] bool is_none() const { return longest == Duration(0) && deaths == 0; }
};

/// The cuts begin within `life` from now; a process stops or dies just after it has posted something.
inline void disturb(World& world, const Disturbance& disturbance, Duration life) {
  constexpr std::uint64_t kStopOneIn = 20;  // operations
  constexpr std::uint64_t kDieOneIn = 150;
  Scheduler& scheduler = world.scheduler();
  const auto any_rank = [&world] { return static_cast<team::Rank>(world.scheduler().random() % world.size()); };
  const auto any_time = [&world, disturbance] { return world.scheduler().up_to(disturbance.longest); };
  for (int i = 0; i < disturbance.cuts; ++i) {
    scheduler.after(scheduler.up_to(life), [&world, from = any_rank(), to = any_rank(), time = any_time()] {
      if (from == to) return;
      world.wires().stall(world.fabric(from).process(), world.fabric(to).process(), time);
    });
  }
  if (disturbance.stops + disturbance.deaths == 0) return;
  const auto left = std::make_shared<Disturbance>(disturbance);
  for (team::Rank rank = 0; rank < world.size(); ++rank) {
    world.fabric(rank).before_each([&world, rank, left, any_time](const Operation* /*operation*/) {
      Scheduler& dice = world.scheduler();
      const Duration soon = dice.up_to(2 * Network{}.latency);
      if (left->stops != 0 && dice.one_in(kStopOneIn)) {
        --left->stops;
        dice.after(soon, [&world, rank, time = any_time()] { world.pause(rank, time); });
      }
      if (left->deaths != 0 && dice.one_in(kDieOneIn)) {
        --left->deaths;
        dice.after(soon, [&world, rank] { world.kill(rank); });
      }
    });
  }
}

}  // namespace farside::sim
