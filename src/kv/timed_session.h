// timed_session.h — an atomic session whose calls have a time-out.
//
// Stands alone: tests make sessions without a service.
#pragma once

#include "farside/kv/session.h"

#include "kv/client/atomic_session.h"

namespace farside::kv {

class TimedSession : public Session {
 public:
  /// Both outlive it.
  TimedSession(const Fabric& fabric, AtomicSession& session, Duration time_out)
      : fabric_(fabric), session_(session), time_out_(time_out) {}

  Result<std::span<const Got>> get_all(std::span<const std::string_view> keys) override {
    return session_.get_all(keys, fabric_.in(time_out_));
  }
  PutOutcome put_all(std::span<const Write> writes) override { return session_.put_all(writes, fabric_.in(time_out_)); }
  void put_each(std::span<IndependentPut> puts, const PutEnded& ended) override {
    session_.put_each(puts, fabric_.in(time_out_), ended);
  }
  Result<Scanned> scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) override {
    return session_.scan(cursor, prefix, about, fabric_.in(time_out_));
  }
  Result<std::vector<MemoryUse>> use() override { return session_.use(fabric_.in(time_out_)); }
  [[nodiscard]] std::vector<bool> hear() override { return session_.hear(); }
  void set_time_out(std::chrono::milliseconds time_out) override { time_out_ = time_out; }
  [[nodiscard]] std::uint64_t wall_ns() const override { return session_.wall_ns(); }

 private:
  const Fabric& fabric_;
  AtomicSession& session_;
  Duration time_out_;
};

}  // namespace farside::kv
