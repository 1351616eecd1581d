// rank_watch.h — whether a rank of the team has died since, whoever may have come back in its place.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "farside/team/team.h"

namespace farside {

class RankWatch {
 public:
  RankWatch(Team& team, Rank rank);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  /// From any thread.
  [[nodiscard]] bool has_died() const noexcept { return has_died_.load(std::memory_order_acquire); }

 private:
  Team& team_;
  const std::unique_ptr<Region> end_;  ///< a word, which ends the waiting
  std::atomic<bool> has_died_ = false;
  std::thread waiting_;
};

}  // namespace farside
