#include "kv/resp/watched_session.h"

#include "base/assert.h"

namespace farside::kv {

class WatchedSession::Call {
 public:
  Call(WatchedSession& session, Needs needs) : session_(session) {
    {
      const MutexLock lock(session_.mutex_);
      assert_that(!session_.began_, "a session has one call at a time");
      session_.began_ = session_.clock_.now();
      session_.needs_ = needs;
      ++session_.calls_;
    }
    session_.on_call_();
  }
  ~Call() {
    const MutexLock lock(session_.mutex_);
    session_.began_.reset();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  WatchedSession& session_;
};

bool WatchedSession::look(Clock::time_point since, const std::function<bool(const Needs&)>& relieve) {
  const MutexLock lock(mutex_);
  if (!began_ || *began_ > since || relieved_) return false;
  relieved_ = relieve(needs_);
  return relieved_;
}

bool WatchedSession::is_busy() const {
  const MutexLock lock(mutex_);
  return began_.has_value();
}

std::uint64_t WatchedSession::calls() const {
  const MutexLock lock(mutex_);
  return calls_;
}

Result<std::span<const Got>> WatchedSession::get_all(std::span<const std::string_view> keys) {
  const Call call(*this, keys);
  const metrics::ScopedLatency latency(latencies_.gets);
  return session_->get_all(keys);
}

PutOutcome WatchedSession::put_all(std::span<const Write> writes) {
  const Call call(*this, writes);
  const metrics::ScopedLatency latency(latencies_.puts);
  return session_->put_all(writes);
}

void WatchedSession::put_each(std::span<IndependentPut> puts, const PutEnded& ended) {
  const Call call(*this, puts);
  const metrics::ScopedLatency latency(latencies_.puts);
  session_->put_each(puts, ended);
}

Result<Scanned> WatchedSession::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) {
  const Call call(*this, std::monostate());
  return session_->scan(cursor, prefix, about);
}

Result<std::vector<MemoryUse>> WatchedSession::use() {
  const Call call(*this, std::monostate());
  return session_->use();
}

}  // namespace farside::kv
