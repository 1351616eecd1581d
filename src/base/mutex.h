// mutex.h — a mutex whose use clang checks (-Wthread-safety in scripts/lint): data that is GUARDED_BY it is touched by
// its holder alone, and a function that REQUIRES it is called by its holder alone. Other compilers ignore the
// annotations.
#pragma once

#include <mutex>

#ifdef __clang__
#define FARSIDE_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define FARSIDE_THREAD_SAFETY(attribute)
#endif

#define CAPABILITY(name) FARSIDE_THREAD_SAFETY(capability(name))
#define SCOPED_CAPABILITY FARSIDE_THREAD_SAFETY(scoped_lockable)
#define GUARDED_BY(mutex) FARSIDE_THREAD_SAFETY(guarded_by(mutex))
#define PT_GUARDED_BY(mutex) FARSIDE_THREAD_SAFETY(pt_guarded_by(mutex))
#define REQUIRES(...) FARSIDE_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) FARSIDE_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) FARSIDE_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) FARSIDE_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) FARSIDE_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define RETURN_CAPABILITY(mutex) FARSIDE_THREAD_SAFETY(lock_returned(mutex))
#define NO_THREAD_SAFETY_ANALYSIS FARSIDE_THREAD_SAFETY(no_thread_safety_analysis)

namespace farside {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

/// Holds a mutex until its scope ends, but for the time between unlock and lock.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  /// Takes over a mutex that the caller holds.
  MutexLock(Mutex& mutex, std::adopt_lock_t /*unused*/) REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() RELEASE() {
    if (holds_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() RELEASE() {
    holds_ = false;
    mutex_.unlock();
  }
  void lock() ACQUIRE() {
    mutex_.lock();
    holds_ = true;
  }

 private:
  Mutex& mutex_;
  bool holds_ = true;
};

}  // namespace farside
