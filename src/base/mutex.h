// mutex.h — a mutex whose use clang checks (-Wthread-safety in scripts/lint): data that is GUARDED_BY it is touched by
// its holder alone, and a function that REQUIRES it is called by its holder alone. Other compilers ignore the
// annotations.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

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
#define ASSERT_CAPABILITY(mutex) FARSIDE_THREAD_SAFETY(assert_capability(mutex))
#define RETURN_CAPABILITY(mutex) FARSIDE_THREAD_SAFETY(lock_returned(mutex))
#define NO_THREAD_SAFETY_ANALYSIS FARSIDE_THREAD_SAFETY(no_thread_safety_analysis)

namespace farside {

class ConditionVariable;

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  /// Tells clang that this thread holds it, and checks nothing. For code that runs under a lock which clang cannot
  /// follow: a callback, or a member of an object that holds the lock.
  void assume_held() const ASSERT_CAPABILITY(this) {}

 private:
  friend class ConditionVariable;
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
  friend class ConditionVariable;
  Mutex& mutex_;
  bool holds_ = true;
};

/// A std::condition_variable for a Mutex. A predicate runs under the lock: it REQUIRES the mutex that guards what it
/// reads.
class ConditionVariable {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  template <class Predicate>
  void wait(MutexLock& lock, Predicate ready) {
    Borrowed borrowed(lock);
    condition_.wait(borrowed.lock, std::move(ready));
  }
  /// Returns false when the predicate is false at the deadline.
  template <class Clock, class Precision, class Predicate>
  bool wait_until(MutexLock& lock, const std::chrono::time_point<Clock, Precision>& deadline, Predicate ready) {
    Borrowed borrowed(lock);
    return condition_.wait_until(borrowed.lock, deadline, std::move(ready));
  }
  template <class Count, class Period, class Predicate>
  bool wait_for(MutexLock& lock, const std::chrono::duration<Count, Period>& limit, Predicate ready) {
    Borrowed borrowed(lock);
    return condition_.wait_for(borrowed.lock, limit, std::move(ready));
  }

 private:
  /// The lock as std::condition_variable takes it. It is held at the end, also by an exception.
  struct Borrowed {
    explicit Borrowed(MutexLock& from) : lock(from.mutex_.mutex_, std::adopt_lock) {}
    ~Borrowed() { (void)lock.release(); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace farside
