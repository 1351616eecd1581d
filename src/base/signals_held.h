// signals_held.h — the program's signals are for the program's own code.
#pragma once

#include <csignal>
#include <initializer_list>
#include <system_error>
#include <thread>
#include <utility>

#include "farside/base/error.h"

namespace farside {

/// Blocks signals in this thread while it exists: they are handled afterwards.
class SignalsHeld {
 public:
  /// All of them: no handler of the program runs in this thread.
  SignalsHeld() {
    ::sigfillset(&held_);
    ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  SignalsHeld(std::initializer_list<int> signals) {
    ::sigemptyset(&held_);
    for (const int signal : signals) ::sigaddset(&held_, signal);
    ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~SignalsHeld() {
    if (!is_kept_) let_go();
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  /// Handles them from now on.
  void let_go() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// Holds them for as long as the thread lives, also when this is gone: then one that comes late has no effect.
  void keep() { is_kept_ = true; }

  /// Waits for one of them, and takes it. Returns its number.
  [[nodiscard]] int wait() const {
    int number = 0;
    ::sigwait(&held_, &number);
    return number;
  }

  /// Whether one of them waits to be handled.
  [[nodiscard]] bool any_came() const {
    sigset_t came;
    ::sigpending(&came);
    ::sigandset(&came, &came, &held_);
    return ::sigisemptyset(&came) == 0;
  }

  [[nodiscard]] const sigset_t& held() const { return held_; }
  /// Signals that were blocked before, and stay so.
  [[nodiscard]] const sigset_t& before() const { return before_; }

 private:
  sigset_t held_{};
  sigset_t before_{};
  bool is_kept_ = false;
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
