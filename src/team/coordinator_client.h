// coordinator_client.h — a member's side of the coordinator. Between hosts a member that has lost the coordinator goes
// on as it is, and keeps its seat when it finds the coordinator again, or one that was started with its log.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "net/connection.h"
#include "net/introduction.h"
#include "team/bootstrap.h"
#include "team/liveness.h"
#include "team/seat_keeper.h"
#include "team/succession/coordinator_finder.h"

namespace farside::team {

class CoordinatorClient final : public Bootstrap {
 public:
  /// Shakes hands and takes the seat of `rank`. Throws Error when refused or when the deadline passes.
  /// `address` as CoordinatorFinder takes it.
  CoordinatorClient(net::EventLoop& loop, const std::string& address, const net::Secret& secret, Rank rank,
                    MembershipNotices notices, net::SetupClock::time_point deadline);

  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] Rank size() const override { return size_; }
  [[nodiscard]] std::uint16_t incarnation() const override { return incarnation_; }
  [[nodiscard]] Standing standing() const override { return standing_; }
  [[nodiscard]] std::chrono::milliseconds longest_silence() const override {
    return host_local_ ? std::chrono::milliseconds(0) : team::longest_silence(silent_beats_.load());
  }
  [[nodiscard]] std::string fabric_secret(net::SetupClock::time_point /*deadline*/) override { return fabric_secret_; }
  [[nodiscard]] std::string network() const override { return network_; }

  [[nodiscard]] std::vector<std::string> exchange(const std::string& tried, std::string blob,
                                                  net::SetupClock::time_point deadline) override;
  void evict(Rank rank, std::uint16_t incarnation) override;
  void leave() override;

 private:
  struct Welcome {
    std::uint64_t team = 0;
    std::uint32_t generation = 0;
    Rank size = 0;
    std::uint16_t incarnation = 0;
    std::uint32_t silent_beats = 0;
    bool may_be_back = false;  ///< the coordinator, or one with its log, when it is lost
    Standing standing;
  };
  [[nodiscard]] Welcome decode_welcome(const net::Frame& frame) const;

  [[nodiscard]] net::Acquaintance meet(const net::Secret& secret, net::SetupClock::time_point deadline);

  // On the loop's thread.
  void start(Fd socket);
  void serve();
  void obey(const net::Frame& frame);
  void take_gathered(const net::Frame& frame);
  void take_loss(const net::Frame& frame);
  void take_return(const net::Frame& frame);
  /// Goes on without it for now.
  void lose_coordinator(const std::string& why);
  void hear();
  void take_answer(net::Acquaintance met);
  void say_again();
  /// For good: the team has ended, or this is no member of it.
  void disconnect(const std::string& why);
  [[nodiscard]] bool leave_loop();
  void on_tick();

  void send_later(net::FrameKind kind, std::string fields);
  void fail(const std::string& why);

  net::EventLoop& loop_;
  MembershipNotices notices_;
  CoordinatorFinder finder_;
  const Rank rank_;
  const bool host_local_;
  const std::string fabric_secret_;
  std::string network_;
  std::uint64_t team_ = 0;
  std::atomic<std::uint32_t> generation_ = 0;  ///< of the coordinator that it followed last
  Rank size_ = 0;
  std::uint16_t incarnation_ = 0;
  Standing standing_;
  std::atomic<std::uint32_t> silent_beats_ = 0;  ///< as the coordinator chose (liveness.h)

  // Used by the loop's thread, once it started.
  net::Session session_;
  std::unique_ptr<net::Connection> connection_;
  unsigned beats_since_heard_ = 0;
  bool is_away_ = false;  ///< the coordinator
  bool left_ = false;

  Mutex mutex_;
  ConditionVariable changed_;
  /// The blobs of the first ranks, of the exchange that is being gathered.
  std::vector<std::string> coming_ GUARDED_BY(mutex_);
  std::optional<std::vector<std::string>> gathered_ GUARDED_BY(mutex_);
  bool refused_ GUARDED_BY(mutex_) = false;         ///< for good: this process cannot be a member
  std::string failure_ GUARDED_BY(mutex_);          ///< why there are no further exchanges; empty while there may be
  std::uint32_t epoch_ GUARDED_BY(mutex_) = 0;      ///< as the coordinator told last
  std::set<Rank> lost_ GUARDED_BY(mutex_);          ///< ranks that it told to be lost and not to have come back
  std::uint32_t exchanges_ GUARDED_BY(mutex_) = 0;  ///< that this process has taken part in
  /// Exchanges that were complete when the coordinator was found again: this process may lack the last one's result.
  std::uint32_t complete_ GUARDED_BY(mutex_) = 0;
  struct Contribution {
    std::uint32_t epoch;
    std::string blob;
    net::SetupClock::time_point deadline;
  };
  std::optional<Contribution> given_ GUARDED_BY(mutex_);  ///< to the exchange under way
  /// That were asked for, and of which the coordinator has not told yet.
  std::vector<std::pair<Rank, std::uint16_t>> evictions_ GUARDED_BY(mutex_);
  [[nodiscard]] std::string contribution() const REQUIRES(mutex_);

  std::optional<SeatKeeper> keeper_;  ///< if a lost coordinator may be back; last: its thread uses the others
};

}  // namespace farside::team
