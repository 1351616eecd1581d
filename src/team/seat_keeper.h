// seat_keeper.h — asks for the seat that this member has, while it has lost the coordinator: one that is unresponsive,
// or was started again with its log. Runs on its own thread, idle otherwise: connecting blocks, and the service thread
// must notice deaths.
//
// Thread safety: every call from any thread; `seat` and `answered` are called on the keeper's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "net/introduction.h"
#include "team/succession/coordinator_finder.h"

namespace farside::team {

class SeatKeeper {
 public:
  /// A member's description of itself.
  struct Seat {
    std::uint64_t team;
    std::uint32_t generation;  ///< of the coordinator that it followed last
    std::uint16_t incarnation;
    std::uint32_t epoch;  ///< the last one that it knows of
  };
  /// The coordinator's first frame is a welcome or a refusal.
  using Answered = std::function<void(net::Acquaintance met)>;

  /// `finder` outlives it.
  SeatKeeper(CoordinatorFinder& finder, const net::Secret& secret, std::uint32_t rank, std::size_t body_limit,
             std::function<Seat()> seat, Answered answered);
  ~SeatKeeper();
  SeatKeeper(const SeatKeeper&) = delete;
  SeatKeeper& operator=(const SeatKeeper&) = delete;

  /// Asks, with exponential backoff, until there is an answer or `end`.
  void begin();
  /// The coordinator was heard again. An answer may come all the same.
  void end();

 private:
  void run();
  /// Returns whether the coordinator is one of this team. Throws Error when none answers.
  [[nodiscard]] bool ask();
  [[nodiscard]] bool is_wanted();
  void pause(std::chrono::milliseconds duration);

  CoordinatorFinder& finder_;
  const net::Secret secret_;
  const std::uint32_t rank_;
  const std::size_t body_limit_;
  const std::function<Seat()> seat_;
  const Answered answered_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool wants_ GUARDED_BY(mutex_) = false;
  bool ends_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace farside::team
