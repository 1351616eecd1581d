// host_team.h — a team of real processes: a bootstrap to find each other, the host fabric to work on, and one service
// thread, asleep until a member is lost or comes back.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "farside/team/team.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "net/event_loop.h"
#include "team/barrier_mark.h"
#include "team/bootstrap.h"
#include "team/member_card.h"
#include "team/time_limits.h"

namespace farside::team {

class HostTeam final : public Team {
 public:
  using BootstrapMaker = std::function<std::unique_ptr<Bootstrap>(net::EventLoop& loop, MembershipNotices notices,
                                                                  net::SetupClock::time_point)>;

  /// Joins, with all other members. Throws Error when they do not all come, differ, or one is lost meanwhile.
  explicit HostTeam(const BootstrapMaker& make_bootstrap);
  ~HostTeam() override;
  HostTeam(const HostTeam&) = delete;
  HostTeam& operator=(const HostTeam&) = delete;

  [[nodiscard]] Rank rank() const override { return bootstrap_->rank(); }
  [[nodiscard]] Rank size() const override { return bootstrap_->size(); }
  [[nodiscard]] Fabric& fabric() override { return *fabric_; }
  [[nodiscard]] std::uint16_t incarnation() const override { return bootstrap_->incarnation(); }

  [[nodiscard]] std::unique_ptr<SymmetricRegion> allocate(const std::string& name, std::uint64_t bytes) override;
  Outcome barrier(Deadline deadline) override;

  [[nodiscard]] std::uint64_t epoch() const override;
  [[nodiscard]] bool has_died(Rank rank) override { return died_.at(rank).load(std::memory_order_acquire); }
  [[nodiscard]] bool has_died(Rank rank, std::uint16_t incarnation) override {
    return incarnation < dead_before_.at(rank).load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_vacant(Rank rank) override {
    const MutexLock lock(membership_);
    return dead_before_.at(rank).load(std::memory_order_acquire) > incarnations_.at(rank);
  }
  [[nodiscard]] bool is_out(Rank rank) override { return out_.at(rank).load(std::memory_order_acquire); }
  Outcome evict(Rank rank, Deadline deadline) override;
  [[nodiscard]] bool has_coordinator() const override { return has_coordinator_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::chrono::milliseconds longest_silence() const override { return bootstrap_->longest_silence(); }
  void on_cut_off(const std::function<void()>& handler) override;

 private:
  // The exchanges that every member takes part in, by number.
  static constexpr std::size_t kCards = 0;
  static constexpr std::size_t kAddresses = 1;
  static constexpr std::size_t kFirstRegion = 2;

  HostTeam() = default;

  [[nodiscard]] static std::string named(Rank rank) { return "rank " + std::to_string(rank); }

  void form(const BootstrapMaker& make_bootstrap);
  [[nodiscard]] bool join(const BootstrapMaker& make_bootstrap, net::SetupClock::time_point deadline);
  void exchange_cards(net::SetupClock::time_point deadline);
  void expect_descriptors() const;
  void connect_all(net::SetupClock::time_point deadline);
  [[nodiscard]] bool one_host() const;
  [[nodiscard]] bool is_first_on_host() const;
  [[nodiscard]] std::unique_ptr<SymmetricRegion> gather_region(std::unique_ptr<Region> local,
                                                               net::SetupClock::time_point deadline);
  [[nodiscard]] std::unique_ptr<RemoteRegion> attach_piece(Rank rank, const std::string& piece, const std::string& name,
                                                           std::uint64_t bytes) REQUIRES(membership_);
  [[nodiscard]] const std::string& newest(std::size_t exchange, Rank rank, const std::string& gathered) const
      REQUIRES(membership_);
  [[nodiscard]] bool on_this_host(Rank rank) const REQUIRES(membership_) {
    assert_that(rank < cards_.size(), "a rank's host is asked for once the cards are exchanged");
    return cards_[rank].host == own_card_.host;
  }
  [[nodiscard]] BarrierMark mark_of(Rank rank) const REQUIRES(collective_);
  [[nodiscard]] std::vector<Rank> missing() const REQUIRES(collective_);
  [[nodiscard]] std::vector<std::uint32_t> returns() const;

  // On the service thread.
  void hear_of_loss(Rank rank, Loss loss);
  /// `incarnation`: none: the last that came.
  void take_for_dead(Rank rank, Loss loss, std::optional<std::uint16_t> incarnation = {});
  // Or by the thread that evicts, which names the life of the rank that it saw: its successor is not lost.
  void lose(Rank rank, Loss loss, std::optional<PeerLife> seen = {});
  [[nodiscard]] bool take_access(Rank rank);
  void lose_other_hosts(const std::string& why);
  void cut_off(const std::vector<Rank>& from, const std::string& why);
  // On the service thread alone.
  void take_back(Rank rank, const std::vector<std::string>& blobs);
  /// Once nothing of its predecessor can reach this process's memory. Tries again with exponential backoff until the
  /// deadline, unless the coordinator has told of the rank since: `notice` is the number of that return.
  struct Return {
    Rank rank;
    std::uint32_t notice;  ///< of `notices_`: nothing was heard of the rank since
    net::SetupClock::time_point deadline;
    bool is_access_gone = false;  ///< the predecessor's, for good
    Backoff<std::chrono::milliseconds> pauses{time_limits::kFirstPause, time_limits::kReturn};
  };
  void finish_return(Return returned);
  /// Without the mutex: the service thread alone changes these two.
  [[nodiscard]] const std::vector<std::string>& newer_blobs(Rank rank) const NO_THREAD_SAFETY_ANALYSIS {
    return newer_.at(rank);
  }
  [[nodiscard]] bool is_cut_off() const NO_THREAD_SAFETY_ANALYSIS { return is_cut_off_; }
  void replace_member(Rank rank, const std::vector<std::string>& blobs);
  [[nodiscard]] std::set<Rank> gone_ranks() {
    const MutexLock lock(membership_);
    return gone_;
  }
  /// Tries again after `pause`, doubled each time, when it cannot watch: the process may live.
  void watch_process(Rank rank, Backoff<std::chrono::milliseconds> backoff = {team::time_limits::kFirstPause,
                                                                              team::time_limits::kMaxPause});

  net::EventLoop loop_;
  std::unique_ptr<Bootstrap> bootstrap_;
  MemberCard own_card_;
  std::unique_ptr<Fabric> fabric_;

  Mutex collective_;  ///< allocate and barrier: one at a time
  std::unique_ptr<SymmetricRegion> arrivals_ PT_GUARDED_BY(collective_);
  std::unique_ptr<Channel> channel_ PT_GUARDED_BY(collective_);
  BarrierMark mark_ GUARDED_BY(collective_);     ///< of the last barrier that was called
  bool passed_ GUARDED_BY(collective_) = false;  ///< it ended well

  mutable Mutex membership_;
  std::vector<MemberCard> cards_ GUARDED_BY(membership_);
  std::vector<std::uint16_t> incarnations_ GUARDED_BY(membership_);  ///< by rank: the last that came
  std::set<Rank> gone_ GUARDED_BY(membership_);                      ///< lost to this process, for whatever reason
  bool connected_ GUARDED_BY(membership_) = false;                   ///< the fabric knows every rank
  /// The epoch, less what epoch() adds for those lost at the start.
  std::uint64_t epoch_base_ GUARDED_BY(membership_) = 0;
  std::vector<std::uint32_t> returns_ GUARDED_BY(membership_);  ///< how often each rank has come back
  /// The blobs that ranks which came back have given to the first exchanges.
  std::map<Rank, std::vector<std::string>> newer_ GUARDED_BY(membership_);
  std::vector<std::weak_ptr<Pieces>> regions_ GUARDED_BY(membership_);  ///< what was allocated, in order

  bool is_cut_off_ GUARDED_BY(membership_) = false;

  metrics::Counter lost_{
      {"farside_team_members_lost_total", "Members that died, were evicted, or could not be reached."}};
  metrics::Counter came_back_{{"farside_team_members_returned_total", "Lost members that this process reached again."}};

  std::atomic<bool> has_coordinator_ = true;
  std::vector<std::atomic<bool>> died_;  ///< by rank: that a process of it died was decided, for all members
  std::vector<std::atomic<std::uint32_t>> dead_before_;  ///< by rank: so have all processes of lower incarnations
  std::vector<std::atomic<bool>> out_;                   ///< its present process, or its last

  // The service thread's.
  std::function<void()> on_cut_off_;
  std::vector<Fd> processes_;           ///< pidfds that loop_ watches
  std::vector<std::uint32_t> notices_;  ///< by rank: how many losses and returns the coordinator has told of
};

}  // namespace farside::team
