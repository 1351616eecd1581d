// service.h — the thread that does in the background what callers started and left, and that others can call upon.
//
// It sleeps on a word of this process's memory, its bell, to which everybody adds one who wants something of it. Tasks
// are done one after another, in the order of issue; `finished` is the number of the last one. One that waits for
// others is called again after each ring.
//
//   bell       AtomicWord    how often it was rung
//   finished   ControlWord   written by the service thread alone
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <variant>
#include <vector>

#include "farside/comm/comm.h"

#include "comm/copies.h"
#include "comm/failures.h"

namespace farside {

class Service {
 public:
  /// Collective.
  explicit Service(Team& team);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  using Work = std::variant<Comm::Task, Copy>;
  Request issue(Channel& channel, Work work);
  [[nodiscard]] std::uint64_t issued() const;
  [[nodiscard]] bool idle() const;
  [[nodiscard]] bool finished(const Request& request) const;
  [[nodiscard]] Ended wait(Channel& channel, const Request& request, Deadline deadline) const;

  void on_ring(std::function<void(Channel&)> work);
  Outcome ring(Channel& channel, Rank rank, Deadline deadline) const;

 private:
  struct Issued {
    Work work;
    std::optional<Deadline> deadline{};  ///< since it was begun
  };

  void serve(const std::stop_token& stop);
  bool do_next(Channel& channel);
  [[nodiscard]] std::vector<Copy> take_copies();
  void remove_first();
  void note_ends(Channel& channel, const std::vector<Ended>& ends);
  void tell(Channel& channel);
  [[nodiscard]] LocalWord<ControlWord> finished_word() const;

  Team& team_;
  std::unique_ptr<SymmetricRegion> bells_;
  std::unique_ptr<SymmetricRegion> results_;  // another region, so that who waits for a result does not hear the bell

  mutable std::mutex mutex_;  // guards what follows; the counters may be read without it
  std::deque<Issued> tasks_;
  bool found_nothing_ = true;  ///< the thread, when it looked for tasks last: it may sleep
  std::atomic<std::uint64_t> issued_ = 0;
  std::atomic<std::uint64_t> finished_ = 0;  ///< as the word says, or is about to
  std::uint64_t told_ = 0;                   ///< to those who wait; the thread's own
  Failures failures_;
  std::vector<std::function<void(Channel&)>> on_ring_;

  std::jthread thread_;
};

}  // namespace farside
