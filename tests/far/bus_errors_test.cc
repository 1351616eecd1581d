// SIGBUS shared out among those whose memory it is.
#include "far/pager/bus_errors.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farside::test {
namespace {

// All addresses are its own, and each fault takes until it is let go on.
class Slow final : public far::BusErrorServer {
 public:
  [[nodiscard]] bool owns(const void* /*address*/) const override { return true; }
  void serve_bus_error(void* /*address*/, bool /*is_write*/) override {
    came = true;
    came.notify_all();
    goes_on.wait(false);
  }

  std::atomic<bool> came{false};
  std::atomic<bool> goes_on{false};
};

bool ends_well(pid_t child) {
  int status = -1;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > give_up) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status == 0;
}

// The thread whose fault is being served at the fork is not in the child, where no thread waits for it.
TEST(BusErrors, AForkedChildWaitsForNoThreadOfItsParent) {
  Slow slow;
  std::optional<far::BusErrorRegistration> registration(slow);
  std::thread faulting([] { (void)::raise(SIGBUS); });
  slow.came.wait(false);
  const pid_t child = ::fork();
  if (child == 0) {
    registration.reset();
    ::_exit(0);
  }
  EXPECT_TRUE(ends_well(child));
  slow.goes_on = true;
  slow.goes_on.notify_all();
  faulting.join();
}

}  // namespace
}  // namespace farside::test
