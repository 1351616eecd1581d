#include "team/launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "base/file_limit.h"
#include "base/program_error.h"
#include "team/environment.h"
#include "team/time_limits.h"

namespace farside::team {

namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> array;
  array.reserve(texts.size() + 1);
  for (std::string& text : texts) array.push_back(text.data());
  array.push_back(nullptr);
  return array;
}

// This process's environment with `changes` in the place of what they name.
std::vector<std::string> changed_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> all = changes;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view kept(*entry);
    const std::string_view name = kept.substr(0, kept.find('=') + 1);
    if (std::ranges::none_of(changes, [name](const auto& change) { return change.starts_with(name); })) {
      all.emplace_back(kept);
    }
  }
  return all;
}

std::string how_ended(int status) {
  if (!WIFSIGNALED(status)) return "exited with code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = ::sigdescr_np(signal);
  return "was killed by signal " + std::to_string(signal) + " (" + (name == nullptr ? "unknown" : name) + ")";
}

constexpr std::size_t kFilesPerRank = 2;    // its pidfd, and its connection to a coordinator in this process
constexpr std::size_t kLauncherFiles = 64;  // of its own

/// The processes that this one has to wait for.
std::vector<pid_t> children() {
  std::vector<pid_t> pids;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "children");
    for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
  }
  return pids;
}

/// The data that a new process needs; made before it, since it may not allocate.
struct Exec {
  char* const* command;
  char* const* environment;
  const sigset_t* mask;
  pid_t parent;
  int claim;  ///< the process outlives the parent, and this file is its own; negative: it does not
  const std::vector<int>* descriptors;  ///< as in LaunchPlan; null: all
  int input;                            ///< becomes standard input, unless it is negative
  int report;                           ///< gets errno when the program cannot be started
};

// Has the kernel close all others when a program is executed. False, with errno set, where it cannot (before
// Linux 5.11).
bool pass_on_only(const std::vector<int>& descriptors) {
  int next = STDERR_FILENO + 1;
  for (const int passed_on : descriptors) {
    if (passed_on > next && ::close_range(next, passed_on - 1, CLOSE_RANGE_CLOEXEC) != 0) return false;
    next = std::max(next, passed_on + 1);
  }
  return ::close_range(next, ~0U, CLOSE_RANGE_CLOEXEC) == 0;
}

// In a new process. False, with errno set, when it fails.
bool make_own(int claim) {
  std::array<char, kPidBytes> text{};
  text.fill(' ');
  text.back() = '\n';
  std::to_chars(text.data(), text.data() + text.size() - 1, ::getpid());
  return ::fcntl(claim, F_SETFD, 0) == 0 &&
         ::pwrite(claim, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

[[noreturn]] void fail_to_become(const Exec& exec) {
  const int code = errno;
  [[maybe_unused]] const ssize_t written = ::write(exec.report, &code, sizeof code);
  ::_exit(1);
}

[[noreturn]] void become(const Exec& exec) {
  if (exec.claim >= 0) {
    ::setsid();
    if (!make_own(exec.claim)) fail_to_become(exec);
  } else {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != exec.parent) ::_exit(1);  // it died before the kernel was told
  }
  if (exec.input >= 0) ::dup2(exec.input, STDIN_FILENO);
  ::pthread_sigmask(SIG_SETMASK, exec.mask, nullptr);
  forget_many_files();
  if (exec.descriptors == nullptr || pass_on_only(*exec.descriptors)) {
    ::execvpe(exec.command[0], exec.command, exec.environment);
  }
  fail_to_become(exec);
}

}  // namespace

Launcher::Launcher(LaunchPlan plan, std::vector<AdoptedProcess> adopted)
    : plan_(std::move(plan)), processes_(plan_.ranks) {
  for (AdoptedProcess& each : adopted) {
    processes_.at(each.rank - plan_.first_rank) = {
        .pid = each.pid, .pidfd = std::move(each.pidfd), .is_child = false, .started = Clock::now(), .restart_at = {}};
  }
  ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper_before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  signals_ = Fd(::signalfd(-1, &forwarded_.held(), SFD_CLOEXEC | SFD_NONBLOCK));
  try {
    if (!signals_) throw errno_error("receive", "signals", "check ulimit -n");
    allow_many_files();
    expect_files(kFilesPerRank * plan_.ranks + kLauncherFiles, "start", std::to_string(plan_.ranks) + " ranks");
    for (std::size_t index = 0; index < plan_.ranks; ++index) {
      if (!processes_[index].pidfd) start(index);
    }
  } catch (...) {
    abandon();
    throw;
  }
}

Launcher::~Launcher() { abandon(); }

void Launcher::abandon() {
  const auto is_ours = [](const Process& process) { return process.pidfd && process.is_child; };
  for (const Process& process : processes_) {
    if (is_ours(process)) process.signal(SIGKILL);  // all, before one of them is waited for
  }
  for (const Process& process : processes_) {
    if (is_ours(process)) ::waitpid(process.pid, nullptr, 0);
  }
  kill_adopted();
  ::prctl(PR_SET_CHILD_SUBREAPER, subreaper_before_);
  forwarded_.let_go();
}

// Each round adopts the children of those it kills.
void Launcher::kill_adopted() const {
  for (std::vector<pid_t> adopted = children(); !adopted.empty(); adopted = children()) {
    for (const pid_t pid : adopted) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
}

void Launcher::start(std::size_t index) {
  assert_that(!processes_[index].pidfd, "a rank has one process at a time");
  std::vector<std::string> command = plan_.command;
  std::vector<std::string> changes = plan_.environment;
  changes.push_back(std::string(kRankVariable) + "=" + std::to_string(plan_.first_rank + index));
  std::vector<std::string> environment = changed_environment(changes);
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);

  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw errno_error("open", "a pipe", "check ulimit -n");
  const Fd report(ends[0]);
  Fd reporter(ends[1]);
  const Fd claim = plan_.claim ? plan_.claim(plan_.first_rank + static_cast<Rank>(index)) : Fd();
  const Fd nothing(index == 0 && !claim ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Exec exec{.command = arguments.data(),
                  .environment = variables.data(),
                  .mask = &forwarded_.before(),
                  .parent = ::getpid(),
                  .claim = claim.get(),
                  .descriptors = plan_.descriptors ? &*plan_.descriptors : nullptr,
                  .input = nothing.get(),
                  .report = reporter.get()};

  const pid_t pid = ::fork();
  if (pid == 0) become(exec);
  if (pid < 0) throw errno_error("start", command.front(), "check ulimit -u");
  Process& process = processes_[index];
  process.pid = pid;
  process.is_child = true;
  process.started = Clock::now();
  process.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.pidfd) {
    const Error error = errno_error("watch", command.front(), "check ulimit -n");
    ::kill(pid, SIGKILL);  // it is not left running unwatched
    ::waitpid(pid, nullptr, 0);
    throw Error(error);
  }

  reporter.reset();
  int code = 0;
  if (::read(report.get(), &code, sizeof code) == sizeof code) {  // the end of the pipe means that it runs
    ::waitpid(pid, nullptr, 0);
    process.pidfd.reset();
    throw ProgramError(command.front(), code);
  }
}

JobEnd Launcher::wait() {
  while (running() > 0 || next_time()) wait_event();
  kill_adopted();
  end_.was_asked = asked_to_end_;
  return end_;
}

void Launcher::wait_event() {
  std::vector<pollfd> watched{{signals_.get(), POLLIN, 0}};
  watched.reserve(processes_.size() + 1);
  for (const Process& process : processes_) watched.push_back({process.pidfd.get(), POLLIN, 0});  // -1 is skipped
  int timeout_ms = -1;
  if (const auto next = next_time()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
    timeout_ms = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  }
  const int ready = ::poll(watched.data(), watched.size(), timeout_ms);
  if (ready < 0 && errno != EINTR) throw errno_error("wait for", "the job");
  if (kill_at_ && *kill_at_ <= Clock::now()) {
    signal_all(SIGKILL);
    kill_at_.reset();
  }
  restart_due();
  if (ready <= 0) return;
  if (watched.front().revents != 0) forward_signal();
  for (std::size_t index = 0; index < processes_.size(); ++index) {
    if (watched[index + 1].revents != 0) reap(index);
  }
}

std::optional<Launcher::Clock::time_point> Launcher::next_time() const {
  std::optional<Clock::time_point> next = kill_at_;
  for (const Process& process : processes_) {
    if (process.restart_at && (!next || *process.restart_at < *next)) next = process.restart_at;
  }
  return next;
}

void Launcher::forward_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
  asked_to_end_ = true;
  for (Process& process : processes_) process.restart_at.reset();
  // The terminal sends its signals to the ranks itself, if they are of this process's group.
  if (info.ssi_code != SI_KERNEL || plan_.claim) signal_all(static_cast<int>(info.ssi_signo));
  // One that hangs would outlive this process, and none would end it.
  if (plan_.claim && !kill_at_) kill_at_ = Clock::now() + team::time_limits::kEnd;
}

void Launcher::signal_all(int signal) const {
  for (const Process& process : processes_) {
    if (process.pidfd) process.signal(signal);
  }
}

void Launcher::Process::signal(int number) const {
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), number, nullptr, 0);  // fails only when it has ended
}

Rank Launcher::running() const {
  return static_cast<Rank>(std::ranges::count_if(processes_, [](const auto& process) { return bool(process.pidfd); }));
}

void Launcher::reap(std::size_t index) {
  assert_that(static_cast<bool>(processes_[index].pidfd), "a process that is waited for was not waited for before");
  const bool is_child = processes_[index].is_child;
  int status = 0;
  if (is_child && ::waitpid(processes_[index].pid, &status, 0) < 0) throw errno_error("wait for", "a rank of the job");
  processes_[index].pidfd = Fd();
  const Rank rank = plan_.first_rank + static_cast<Rank>(index);
  plan_.on_death(rank);
  const std::string how = is_child ? how_ended(status) : "ended, and no process was told how";
  int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (!is_child && !asked_to_end_) code = 1;
  if (code != 0) fail(index, code, how);
  if (!processes_[index].restart_at) plan_.on_end(rank, how);
}

void Launcher::fail(std::size_t index, int code, const std::string& how) {
  if (ending_) return;
  const std::string what = "rank " + std::to_string(plan_.first_rank + index) + " " + how;
  if (plan_.restart) {
    const bool final = code == plan_.restart->final_code;
    if (!asked_to_end_ && !final && will_restart(index, what)) return;
    const char* const why = final ? "it " : "it has failed too often in a row and ";
    log::error(what + (asked_to_end_ ? "" : std::string("; ") + why + "is not started again"));
  }
  if (end_.failures.empty()) end_.code = code;
  std::string& failure = end_.failures.emplace_back(what);
  const Rank others = running();
  if (!plan_.end_all_on_failure || others == 0) return;
  failure += "; ended the other " + std::to_string(others);
  ending_ = true;
  signal_all(SIGTERM);
  kill_at_ = std::chrono::steady_clock::now() + team::time_limits::kEnd;
}

bool Launcher::will_restart(std::size_t index, const std::string& failure) {
  const RestartPolicy& policy = *plan_.restart;
  Process& process = processes_[index];
  const auto now = Clock::now();
  if (now - process.started >= policy.good_life) process.failures_in_a_row = 0;
  if (process.failures_in_a_row == policy.most_in_a_row) return false;
  const auto doublings = std::min(process.failures_in_a_row++, 20U);
  const auto pause = std::min(policy.first_pause * (1U << doublings), policy.longest_pause);
  process.restart_at = now + pause;
  log::warn(failure + "; it is started again in " + std::to_string(pause.count()) + " ms");
  return true;
}

void Launcher::restart_due() {
  for (std::size_t index = 0; index < processes_.size(); ++index) {
    if (!processes_[index].restart_at || *processes_[index].restart_at > Clock::now()) continue;
    processes_[index].restart_at.reset();
    try {
      start(index);
    } catch (const Error& error) {
      fail(index, 1, std::string("could not be started again: ") + error.what());
      continue;
    }
    if (plan_.on_restart) {
      plan_.on_restart(static_cast<Rank>(plan_.first_rank + index), processes_[index].pid);
    }
  }
}

}  // namespace farside::team
