// task_queue.h — tasks that other threads post to the thread that runs them.
//
// Thread safety: post from any thread, run from one.
#pragma once

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"

namespace farside {

class TaskQueue {
 public:
  /// `wake` has the running thread call run() soon. Any thread may call it.
  explicit TaskQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  void post(std::function<void()> task) {
    {
      const MutexLock lock(mutex_);
      tasks_.push_back(std::move(task));
      any_.store(true, std::memory_order_release);
    }
    wake_();
  }

  /// Does what was posted, in that order. False if there was nothing.
  bool run() {
    if (!any_.load(std::memory_order_acquire)) return false;
    std::vector<std::function<void()>> tasks;
    {
      const MutexLock lock(mutex_);
      assert_that(!tasks_.empty(), "the flag says that there are tasks, and one thread alone takes them");
      tasks.swap(tasks_);
      any_.store(false, std::memory_order_relaxed);
    }
    for (const auto& task : tasks) task();
    return true;
  }

 private:
  const std::function<void()> wake_;
  Mutex mutex_;
  std::vector<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  std::atomic<bool> any_ = false;
};

}  // namespace farside
