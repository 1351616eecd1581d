#include "kv/resp/overseer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/signals_held.h"
#include "kv/protocol/time_limits.h"
#include "kv/resp/reconnecting_session.h"
#include "kv/resp/resp_worker.h"

namespace farside::kv {

Overseer::Overseer(SilentServers& silent, OpenSession open_session, OverseerClock& clock)
    : silent_(silent), open_session_(std::move(open_session)), clock_(clock) {}

void Overseer::start(std::vector<RespWorker*> workers) {
  workers_ = std::move(workers);
  session_ = open_session_();
  for (RespWorker* worker : workers_) worker->add(open_session_());
  thread_ = start_thread([this] { run(); });
}

void Overseer::stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Overseer::wake() {
  if (!is_asleep_) return;
  const MutexLock lock(mutex_);  // or it is about to sleep, and would not hear of it
  is_asleep_ = false;
  wake_.notify_one();
}

void Overseer::run() {
  for (open_sessions(); rest(); open_sessions()) {
    look();
    if (silent_.any()) hear();
  }
}

// A call that begins after it was said that this sleeps wakes it.
bool Overseer::rest() {
  const bool is_quiet = !opened_.valid() && !silent_.any() && !is_any_busy();
  MutexLock lock(mutex_);
  if (is_quiet) {
    is_asleep_ = true;
    lock.unlock();
    const bool is_quiet_still = !is_any_busy();
    lock.lock();
    if (is_quiet_still) wake_.wait(lock, [this]() REQUIRES(mutex_) { return ends_ || !is_asleep_; });
    is_asleep_ = false;
  }
  if (!ends_) {
    wake_.wait_for(lock, clock_.sleep_for(time_limits::kBetweenGlances), [this]() REQUIRES(mutex_) { return ends_; });
  }
  return !ends_;
}

// A call is under way, or there was one since this was asked last.
bool Overseer::is_any_busy() {
  std::uint64_t calls = 0;
  bool is_any = false;
  for (const RespWorker* worker : workers_) {
    calls += worker->calls();
    is_any = is_any || worker->is_in_call();
  }
  return std::exchange(calls_, calls) != calls || is_any;
}

// Before they are needed, and beside the loop, one at a time: a server that does not answer makes each take long.
void Overseer::open_sessions() {
  try {
    if (opened_.valid()) {
      if (opened_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
      opened_for_->add(opened_.get());
    }
    if (Clock::now() < next_try_) return;
    opened_for_ = *std::ranges::min_element(workers_, {}, &RespWorker::further_sessions);
    if (opened_for_->further_sessions() >= RespWorker::kSpareLanes) return;
    opened_ = std::async(std::launch::async, open_session_);
  } catch (const std::exception& error) {  // Error, or there is no thread
    log::warn(std::string("no further session with the store: ") + error.what());
    next_try_ = Clock::now() + time_limits::kBetweenOpenings;
  }
}

void Overseer::look() {
  for (RespWorker* worker : workers_) worker->relieve_if_stuck(clock_.now() - time_limits::kLongCall, *session_);
}

void Overseer::hear() {
  std::vector<bool> answered;
  try {
    answered = session_->hear();
  } catch (const StoreReplaced&) {  // nothing is known of the new one
    return;
  }
  if (!silent_.note(answered)) return;
  for (RespWorker* worker : workers_) worker->look_again();
}

}  // namespace farside::kv
