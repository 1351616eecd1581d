// frames.h — the budget: how many pages may be here at once, and which threads wait for one.
//
// Guarantee: pages here <= budget, but for what is overdrawn. Evictors keep a reserve free, so that a fault seldom
// waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace farside::far {

/// Returns a budget of so many bytes in pages. Throws UsageError when it is too little to work with.
[[nodiscard]] std::uint64_t budget_pages(std::uint64_t bytes);

/// Thread safety: every call, from any thread and from fault handlers.
class Frames {
 public:
  explicit Frames(std::uint64_t budget);

  [[nodiscard]] std::uint64_t budget() const { return budget_; }
  [[nodiscard]] std::uint64_t used() const {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(budget_) - free_.load(std::memory_order_relaxed));
  }

  /// Sleeps until one is free. False when none came free in `timeout`.
  [[nodiscard]] bool take_one(std::chrono::milliseconds timeout);
  /// Up to `wanted`, of which a few are left for others.
  [[nodiscard]] std::uint64_t take_spare(std::uint64_t wanted);
  /// Takes them, whether they are free or not: others leave in their stead.
  void overdraw(std::uint64_t count);
  void give(std::uint64_t count);

  // For evictors.

  /// How many ought to leave now.
  [[nodiscard]] std::uint64_t wanted() const;
  /// Sleeps until some ought to leave, or it is `stopped`.
  void await_wanted(const std::atomic<bool>& stopped);
  void wake_evictors();

 private:
  void ring();

  const std::uint64_t budget_;
  const std::int64_t low_;               ///< below it pages leave,
  const std::int64_t high_;              ///< until so many are free
  std::atomic<std::int64_t> free_;       ///< less than nothing when overdrawn
  std::atomic<std::uint32_t> freed_{0};  ///< counts; takers sleep on it
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint32_t> bell_{0};  ///< counts; evictors sleep on it
  std::atomic<bool> asleep_{false};     ///< perhaps some evictor is
};

}  // namespace farside::far
