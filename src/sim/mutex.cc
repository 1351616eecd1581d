#include "sim/mutex.h"

#include <cerrno>

#include <dlfcn.h>
#include <pthread.h>

#include "sim/scheduler.h"

namespace farside::sim {

namespace {
constexpr Duration kRetry = std::chrono::microseconds(1);  // after which a waiter asks again, at most

using MutexCall = int (*)(pthread_mutex_t*);
MutexCall real(const char* name) { return reinterpret_cast<MutexCall>(::dlsym(RTLD_NEXT, name)); }
}  // namespace

Scheduler*& scheduler_of_simulated_thread() noexcept {
  thread_local Scheduler* scheduler = nullptr;
  return scheduler;
}

}  // namespace farside::sim

using farside::sim::kRetry;
using farside::sim::real;
using farside::sim::Scheduler;
using farside::sim::scheduler_of_simulated_thread;

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto lock = real("pthread_mutex_lock");
  Scheduler* const scheduler = scheduler_of_simulated_thread();
  if (scheduler == nullptr) return lock(mutex);
  for (;;) {
    const int outcome = ::pthread_mutex_trylock(mutex);
    if (outcome != EBUSY) return outcome;
    scheduler->step_aside(kRetry);
  }
}

extern "C" int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  static const auto unlock = real("pthread_mutex_unlock");
  if (Scheduler* const scheduler = scheduler_of_simulated_thread()) scheduler->release();
  return unlock(mutex);
}
