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

#include "authority/office.h"
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
    Rank size = 0;
    std::string terms;
    Coordinator::Admission admission{};
    std::chrono::milliseconds silence = kDefaultSilence;
  };

  /// Takes the office if it is vacant, or if this process's predecessor at the same address had it. Throws Error when
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
  void keep_office();
  void seek_office();
  [[nodiscard]] bool is_takeable(const authority::Office::View& view) const;
  void coordinate(const authority::Holder& held);
  void step_down(const std::string& why);
  /// The coordinator, while this process holds the office.
  [[nodiscard]] Coordinator& present();
  /// Waits. False: this ends, or steps down.
  [[nodiscard]] bool pause(std::chrono::milliseconds duration);
  void end();

  const Settings settings_;
  const net::Secret secret_;
  const std::unique_ptr<authority::RecordStore> records_;
  const authority::OfficeKeys keys_;
  authority::Office office_;
  std::optional<authority::Holder> held_;
  authority::Office::View seen_;
  std::uint32_t looks_unchanged_ = 0;   ///< of seen_; own looks are counted, not time (liveness.h)
  std::uint32_t looks_unanswered_ = 0;  ///< one after the other
  Clock::time_point confirmed_{};       ///< when the renewal was sent that was answered last
  std::uint32_t looks_to_skip_ = 0;     ///< this process could not coordinate
  bool has_warned_ = false;

  Mutex mutex_;
  ConditionVariable changed_;
  std::unique_ptr<Coordinator> coordinator_ GUARDED_BY(mutex_);  ///< null: another process coordinates
  bool ends_ GUARDED_BY(mutex_) = false;
  bool steps_down_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace farside::team
