// launcher.h — the processes of a job: started together, signalled together, and ended together when one fails.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "farside/base/fd.h"
#include "farside/team/team.h"

#include "base/signals_held.h"
#include "team/time_limits.h"

namespace farside::team {

/// A rank that failed is started again after a pause that doubles with each failure in a row, up to a number of them.
/// One that lived for `good_life` has nothing in a row behind it.
struct RestartPolicy {
  unsigned most_in_a_row = 8;
  std::chrono::milliseconds first_pause = team::time_limits::kFirstRestartPause;
  std::chrono::milliseconds longest_pause = team::time_limits::kMaxRestartPause;
  int final_code = 2;  ///< of a rank that does not become well by being started again: a UsageError's
  std::chrono::milliseconds good_life = team::time_limits::kGoodLife;
};

/// The bytes of a pid as a process that outlives its launcher writes it: digits, filled up with spaces, and a newline.
inline constexpr std::size_t kPidBytes = 12;

/// A process that another launcher started, and which outlived that.
struct AdoptedProcess {
  Rank rank = 0;
  pid_t pid = 0;
  Fd pidfd;
};

struct LaunchPlan {
  std::vector<std::string> command;
  Rank ranks = 1;
  Rank first_rank = 0;  ///< when others of the team are on other hosts
  /// "NAME=value", for every rank; they get this process's environment and FARSIDE_RANK as well.
  std::vector<std::string> environment;
  /// The descriptors that ranks get beside the standard ones, ascending. Without it, all that this process opened
  /// without O_CLOEXEC, or inherited.
  std::optional<std::vector<int>> descriptors{};
  /// Unless there is none, the ranks outlive this process. Returns an open file for the process that is about to be
  /// started as `rank`: its own until it ends, with its pid in the first kPidBytes. May throw Error.
  std::function<Fd(Rank rank)> claim{};
  /// When one rank fails, the others are asked to end (SIGTERM) and, 2 s later, killed.
  bool end_all_on_failure = true;
  /// Told of each process that has ended, before the rank is started again. On the thread that waits.
  std::function<void(Rank rank)> on_death = [](Rank) {};
  /// Told of each rank that has ended for good, and how: "exited with code 0". On the thread that waits.
  std::function<void(Rank rank, const std::string& how)> on_end = [](Rank, const std::string&) {};
  /// Unless the ranks were asked to end. What happens to them is logged.
  std::optional<RestartPolicy> restart{};
  std::function<void(Rank rank, pid_t pid)> on_restart{};  ///< by wait(), after the rank was started again
};

struct JobEnd {
  int code = 0;  ///< of the first rank that failed, as a shell gives it: 128 + n when signal n killed it
  /// "rank 2 was killed by signal 9 (Killed); ended the other 3". Those that were ended are not among them, nor those
  /// that were started again.
  std::vector<std::string> failures;
  bool was_asked = false;  ///< by a signal to this process
};

/// While it exists, SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the ranks instead of this process. If this process dies,
/// the kernel kills them, unless they are to outlive it: then they have sessions of their own, without a terminal, and
/// another launcher may adopt them. What a rank started and left behind (the program in a shell script) is adopted, and
/// killed when the last rank has ended; so this process starts no other children meanwhile. The first rank gets this
/// process's standard input, the others an empty one.
class Launcher {
 public:
  /// Starts all ranks but the adopted ones, whose exit codes are not known: they count as failed when they end and were
  /// not asked to. Throws ProgramError when the program is missing or none, Error when it cannot be started. The
  /// calling thread must outlive ranks that do not outlive the process.
  explicit Launcher(LaunchPlan plan, std::vector<AdoptedProcess> adopted = {});
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  /// Kills the processes that still run, but adopted ones.
  ~Launcher();

  [[nodiscard]] pid_t pid(Rank rank) const { return processes_.at(rank - plan_.first_rank).pid; }

  /// Sleeps until all ranks have ended.
  JobEnd wait();

 private:
  using Clock = std::chrono::steady_clock;

  struct Process {
    pid_t pid = 0;
    Fd pidfd;              ///< empty once it has ended and was waited for
    bool is_child = true;  ///< not an adopted one
    Clock::time_point started{};
    unsigned failures_in_a_row = 0;
    std::optional<Clock::time_point> restart_at;

    /// Requires: it has a pidfd.
    void signal(int number) const;
  };

  void start(std::size_t index);
  void abandon();
  void kill_adopted() const;
  void signal_all(int signal) const;
  [[nodiscard]] Rank running() const;
  void wait_event();
  void forward_signal();
  void reap(std::size_t index);
  void fail(std::size_t index, int code, const std::string& how);
  [[nodiscard]] bool will_restart(std::size_t index, const std::string& failure);
  void restart_due();
  /// When the next thing happens that no descriptor tells of.
  [[nodiscard]] std::optional<Clock::time_point> next_time() const;

  const LaunchPlan plan_;
  const SignalsHeld forwarded_{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  int subreaper_before_ = 0;
  Fd signals_;
  std::vector<Process> processes_;  ///< from first_rank_ on
  bool ending_ = false;             ///< the ranks were ended since one failed
  bool asked_to_end_ = false;       ///< by a signal
  std::optional<Clock::time_point> kill_at_;
  JobEnd end_;
};

}  // namespace farside::team
