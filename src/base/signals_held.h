// signals_held.h — the program's signals are for the program's own code.
#pragma once

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "farside/base/error.h"

namespace farside {

/// No handler of the program runs in this thread meanwhile.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

/// One in which no handler of the program ever runs. Throws Error when the system gives no more.
template <class Body>
[[nodiscard]] std::thread start_thread(Body&& body) {
  const SignalsHeld held;  // a thread begins with its maker's mask
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw Error({"start", "a thread", error.code().message(), "raise ulimit -u, or sysctl vm.max_map_count"});
  }
}

}  // namespace farside
