// host_team.h — a team of real processes: a bootstrap to find each other, the host fabric to work on, and one service
// thread, asleep until a member is lost.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "farside/team/team.h"

#include "team/bootstrap.h"
#include "team/event_loop.h"
#include "team/member_card.h"

namespace farside {

class HostTeam final : public Team {
 public:
  using BootstrapMaker =
      std::function<std::unique_ptr<Bootstrap>(EventLoop& loop, MembershipNotices notices, SetupClock::time_point)>;

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
  Outcome evict(Rank rank, Deadline deadline) override;

 private:
  HostTeam() = default;

  void form(const BootstrapMaker& make_bootstrap);
  void exchange_cards(SetupClock::time_point deadline);
  void connect_all(SetupClock::time_point deadline);
  void watch_processes();
  [[nodiscard]] std::unique_ptr<SymmetricRegion> gather_region(std::unique_ptr<Region> local,
                                                               SetupClock::time_point deadline);
  [[nodiscard]] const MemberCard& own_card() const { return cards_[rank()]; }
  [[nodiscard]] bool arrived(Rank rank) const;
  [[nodiscard]] std::vector<Rank> missing() const;

  // On the service thread, or by whoever evicts.
  void lose(Rank rank, Loss loss);
  void take_access(Rank rank);
  void lose_everybody();
  void lose_other_hosts();

  EventLoop loop_;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::vector<MemberCard> cards_;
  std::unique_ptr<Fabric> fabric_;

  std::mutex collective_;  ///< allocate and barrier: one at a time
  std::unique_ptr<SymmetricRegion> arrivals_;
  std::unique_ptr<Channel> channel_;
  std::uint64_t round_ = 1;  ///< of the barrier under way, or the next

  std::mutex membership_;
  std::set<Rank> gone_;
  bool connected_ = false;  ///< the fabric knows every rank

  std::vector<Fd> processes_;  ///< pidfds that loop_ watches
};

}  // namespace farside
