// Children that are made around the handlers of fork, and so have no far memory.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/far_preload/far_program.h"

namespace far_program {

namespace {

constexpr std::size_t kCopyStackBytes = 16 * kPage;

int look(void* memory) { return is_filled(static_cast<std::uint8_t*>(memory), kLarge, 21) ? 0 : 1; }
int give(void* code) { return *static_cast<int*>(code); }

void await_bytes_or_signal(pid_t child) {
  int status = 0;
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  REQUIRE(status == 0 || WIFSIGNALED(status));
}

}  // namespace

// A child that libc makes without the handlers of fork, while another thread forks, has its parent's bytes or dies.
void forks_past_hooks() {
  std::uint8_t* const memory = map(kLarge);
  fill(memory, kLarge, 21);
  const rlimit no_cores{};
  REQUIRE(setrlimit(RLIMIT_CORE, &no_cores) == 0);
  std::atomic<bool> done{false};
  std::thread forker([&] {
    while (!done) {
      const pid_t child = fork();
      if (child == 0) _exit(is_filled(memory, 64 * kPage, 21) ? 0 : 1);
      await_success(child);
    }
  });
  alignas(64) std::uint8_t copy_stack[kCopyStackBytes];
  for (int round = 0; round < 200; ++round) {
    const pid_t child = _Fork();
    if (child == 0) _exit(look(memory));
    await_bytes_or_signal(child);
    await_bytes_or_signal(clone(look, copy_stack + kCopyStackBytes, SIGCHLD, memory));
  }
  done = true;
  forker.join();
  const pid_t child = _Fork();
  if (child == 0) _exit(munmap(memory, kLarge) == 0 ? 0 : 1);  // of addresses that are its parent's alone
  await_success(child);
  int code = 7;
  int status = 0;
  REQUIRE(waitpid(clone(give, copy_stack + kCopyStackBytes, SIGCHLD, &code), &status, 0) > 0);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == code);
  REQUIRE(clone(look, copy_stack + kCopyStackBytes, CLONE_VFORK | SIGCHLD, memory) == -1 && errno == EINVAL);
  REQUIRE(is_filled(memory, kLarge, 21));
}

}  // namespace far_program
