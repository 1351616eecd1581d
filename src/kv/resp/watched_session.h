// watched_session.h — a session of which another thread can see that a call takes long, and what that call needs.
//
// Thread safety: as a session; look and watched_again from other threads.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "farside/kv/session.h"

#include "base/metrics.h"
#include "base/mutex.h"
#include "kv/resp/overseer_clock.h"

namespace farside::kv {

/// The time that calls of sessions take, also of those that fail. Sessions share it.
struct SessionLatencies {
  metrics::Histogram gets{{"farside_kv_get_seconds", "How long an atomic get of the store takes.", ""}};
  metrics::Histogram puts{
      {"farside_kv_put_seconds", "How long an atomic put takes, or several that are under way together.", ""}};
};

class WatchedSession final : public Session {
 public:
  using Clock = std::chrono::steady_clock;
  /// The keys or writes of a call. Nothing: it needs all servers.
  using Needs = std::variant<std::monostate, std::span<const std::string_view>, std::span<const Write>,
                             std::span<IndependentPut>>;

  /// `on_call` runs at the beginning of each call, which `clock` says. `latencies` outlives it.
  WatchedSession(std::unique_ptr<Session> session, SessionLatencies& latencies, const OverseerClock& clock,
                 std::function<void()> on_call)
      : session_(std::move(session)), latencies_(latencies), clock_(clock), on_call_(std::move(on_call)) {}

  /// If a call is under way that had begun by `since`: what `relieve` makes of it, which returns whether the call's
  /// thread is relieved. Meanwhile the call does not end. False: none is, or its thread is relieved already.
  bool look(Clock::time_point since, const std::function<bool(const Needs&)>& relieve);
  [[nodiscard]] bool is_busy() const;
  /// How many calls there have been.
  [[nodiscard]] std::uint64_t calls() const;
  /// For its own thread, between calls.
  [[nodiscard]] bool is_relieved() const noexcept { return relieved_; }
  void watch_again() noexcept { relieved_ = false; }

  Result<std::span<const Got>> get_all(std::span<const std::string_view> keys) override;
  PutOutcome put_all(std::span<const Write> writes) override;
  void put_each(std::span<IndependentPut> puts, const PutEnded& ended) override;
  Result<Scanned> scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) override;
  Result<std::vector<MemoryUse>> use() override;
  [[nodiscard]] std::optional<std::uint32_t> lost_server_of(std::string_view key) const override {
    return session_->lost_server_of(key);
  }
  [[nodiscard]] bool has_lost_server() const override { return session_->has_lost_server(); }
  [[nodiscard]] std::uint32_t servers() const override { return session_->servers(); }
  [[nodiscard]] std::uint32_t server_of(std::string_view key) const override { return session_->server_of(key); }
  [[nodiscard]] std::uint64_t wall_ns() const override { return session_->wall_ns(); }

 private:
  class Call;

  const std::unique_ptr<Session> session_;
  SessionLatencies& latencies_;
  const OverseerClock& clock_;
  const std::function<void()> on_call_;
  std::atomic<bool> relieved_ = false;
  mutable Mutex mutex_;
  std::optional<Clock::time_point> began_ GUARDED_BY(mutex_);  // the call that is under way
  Needs needs_ GUARDED_BY(mutex_);
  std::uint64_t calls_ GUARDED_BY(mutex_) = 0;
};

}  // namespace farside::kv
