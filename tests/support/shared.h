// shared.h — a value that a test and the processes it forks all see, outside any fabric; and waiting with a limit.
#pragma once

#include <chrono>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include <sys/mman.h>

#include "tests/support/reduced.h"

namespace farside::test {

/// Owns a T in memory that forked processes share. T is made of lock-free atomics or is synchronised otherwise.
template <class T>
class Shared {
 public:
  Shared() {
    void* place = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    value_ = new (place) T{};
  }
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }

 private:
  T* value_;
};

/// Looks at `holds` until it is true, for at most `timeout`: long, because only a failing test waits that long.
template <class Condition>
[[nodiscard]] bool eventually(Condition holds, Duration timeout = extended(std::chrono::seconds(60))) {
  const auto give_up = std::chrono::steady_clock::now() + timeout;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace farside::test
