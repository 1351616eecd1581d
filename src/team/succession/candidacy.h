// candidacy.h — one of several processes that may coordinate a team: it runs a coordinator while it holds the office
// (authority/office.h), and takes the office when the holder renews it no more.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "authority/office_store.h"
#include "base/mutex.h"
#include "net/secret.h"
#include "team/coordinator.h"

namespace farside::team {

class Candidacy {
 public:
  using OpenRecords = std::function<std::unique_ptr<authority::RecordStore>()>;

  struct Settings {
    OpenRecords open_records;
    std::string pool;     ///< the name of its records
    std::string address;  ///< where this process would coordinate, as the members on all machines know it
    std::string owner;    ///< the same for its predecessors and successors on this machine, and for no other process
    Rank size = 0;
    std::string terms;
    Coordinator::Admission admission{};
    std::chrono::milliseconds silence = kDefaultSilence;
    bool may_wait = false;  ///< for the authority: there are nodes that live
  };

  /// Takes the office if it is vacant, or if this process's predecessor on this machine had it. Throws Error when
  /// the records cannot be read, are those of another pool, or the coordinator cannot listen.
  Candidacy(Settings settings, const net::Secret& secret);
  /// As if the process were killed.
  ~Candidacy();
  Candidacy(const Candidacy&) = delete;
  Candidacy& operator=(const Candidacy&) = delete;

  /// As Coordinator::report_dead and miss, if this process coordinates. Thread safety: any thread.
  void report_dead(Rank rank);
  void miss(Rank rank, const std::string& how);
  /// The processes of `ended` have ended for certain. Lets another process take the office at once; if no member is
  /// left, nothing is left of the team. The last call.
  void leave(const std::vector<Rank>& ended);

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void step();
  void look_first();
  [[nodiscard]] bool is_any_present(const authority::Office::View& view, const std::vector<Rank>& ranks);
  [[nodiscard]] std::vector<std::string> read_log(const authority::Holder& holder);
  void see(const authority::Office::View& view);
  [[nodiscard]] bool take(const authority::Office::View& view);
  [[nodiscard]] std::optional<TeamState> newer_than_log(const authority::Office::View& view);
  void keep_office();
  [[nodiscard]] authority::Tenure renew();
  void seek_office();
  [[nodiscard]] bool is_takeable(const authority::Office::View& view) const;
  void coordinate(const authority::Holder& held, std::optional<TeamState> newer);
  void step_down(const std::string& why);
  /// The coordinator, while this process holds the office.
  [[nodiscard]] Coordinator& present();
  /// Waits. False: this ends, or steps down.
  [[nodiscard]] bool pause(std::chrono::milliseconds duration);
  void end();

  const Settings settings_;
  const net::Secret secret_;
  const std::string log_terms_;  ///< those of the members, and by which secret they know each other
  const std::unique_ptr<authority::RecordStore> records_;
  const authority::OfficeKeys keys_;
  authority::Office office_;
  std::optional<authority::Holder> held_;
  authority::Office::View seen_;
  std::uint64_t highest_term_ = 0;      ///< that was seen: one that is lower had been put back
  std::uint32_t looks_unchanged_ = 0;   ///< of seen_; own looks are counted, not time (liveness.h)
  std::uint32_t looks_unanswered_ = 0;  ///< one after the other
  Clock::time_point confirmed_{};       ///< when the renewal was sent that was answered last
  std::uint32_t looks_to_skip_ = 0;     ///< this process could not coordinate
  bool has_warned_ = false;
  std::string said_;  ///< the error that was logged last

  /// The decisions until this process stepped down: as long as no other has taken the office, no log has more.
  struct Past {
    std::uint64_t term;
    TeamState state;
  };
  std::optional<Past> past_;

  Mutex mutex_;
  ConditionVariable changed_;
  bool ends_ GUARDED_BY(mutex_) = false;
  bool steps_down_ GUARDED_BY(mutex_) = false;
  authority::OfficeStore* log_ = nullptr;                        ///< the coordinator's
  std::unique_ptr<Coordinator> coordinator_ GUARDED_BY(mutex_);  ///< null: another process coordinates
  std::thread thread_;                                           ///< last: it uses the others
};

}  // namespace farside::team
