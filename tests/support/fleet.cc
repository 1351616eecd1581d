#include "tests/support/fleet.h"

#include <cstdio>
#include <stdexcept>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farside::test {

namespace {

/// A member's whole life. Never returns into the test that forked it.
[[noreturn]] void live(Member& me, const Fleet::Body& body, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left even when the test itself is killed
  if (::getppid() != parent) ::_exit(1);
  int code = 0;
  try {
    body(me);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "member %u: %s\n", me.index(), error.what());
    code = 1;
  }
  if (testing::Test::HasFailure()) code = 1;
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

std::vector<std::string> Member::exchange(std::string_view mine) {
  auto& slots = board_.slots[round_ % 2];
  if (mine.size() > sizeof slots[0].text) throw std::length_error("a text for the board is too long");
  mine.copy(slots[index_].text.data(), mine.size());
  slots[index_].bytes = static_cast<std::uint32_t>(mine.size());
  board_.arrivals.fetch_add(1);
  ++round_;
  if (!eventually([&] { return board_.arrivals.load() >= round_ * count_; })) {
    throw std::runtime_error("not all members came to the barrier");
  }
  std::vector<std::string> texts;
  for (unsigned i = 0; i < count_; ++i) texts.emplace_back(slots[i].text.data(), slots[i].bytes);
  return texts;
}

Fleet::Fleet(unsigned processes, const Body& body) {
  if (processes > Board::kMaxMembers) throw std::length_error("a fleet has at most 16 members");
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  for (unsigned index = 0; index < processes; ++index) {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid == 0) {
      Member me(index, processes, *board_);
      live(me, body, parent);
    }
    pids_.push_back(pid);
  }
}

Fleet::~Fleet() {
  for (const pid_t pid : pids_) {
    if (pid == 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

void Fleet::signal(unsigned index, int signal_number) const { ASSERT_EQ(::kill(pids_.at(index), signal_number), 0); }

void Fleet::stop(unsigned index) const {
  signal(index, SIGSTOP);
  siginfo_t stopped{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pids_.at(index)), &stopped, WSTOPPED), 0);
}

int Fleet::wait(unsigned index) {
  pid_t& pid = pids_.at(index);
  int status = 0;
  if (!eventually([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }, extended(std::chrono::seconds(100)))) {
    ADD_FAILURE() << "member " << index << " did not end";
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  pid = 0;
  return status;
}

void Fleet::expect_success() {
  for (unsigned index = 0; index < pids_.size(); ++index) {
    if (pids_[index] == 0) continue;
    const int status = wait(index);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "member " << index << (WIFSIGNALED(status) ? " was ended by signal " : " exited with code ")
        << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
}

}  // namespace farside::test
