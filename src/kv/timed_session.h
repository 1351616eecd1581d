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

  Outcome get_all(std::span<const std::string_view> keys, std::vector<Got>& got) override {
    return session_.get_all(keys, got, fabric_.in(time_out_));
  }
  PutOutcome put_all(std::span<const Write> writes) override { return session_.put_all(writes, fabric_.in(time_out_)); }
  void put_each(std::span<IndependentPut> puts) override { session_.put_each(puts, fabric_.in(time_out_)); }
  Outcome scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Scanned& scanned) override {
    return session_.scan(cursor, prefix, about, scanned, fabric_.in(time_out_));
  }
  Outcome use(std::vector<MemoryUse>& servers) override { return session_.use(servers, fabric_.in(time_out_)); }
  void hear(std::vector<bool>& answered) override { session_.hear(answered); }
  void set_time_out(std::chrono::milliseconds time_out) override { time_out_ = time_out; }
  [[nodiscard]] std::uint64_t wall_ns() const override { return session_.wall_ns(); }

 private:
  const Fabric& fabric_;
  AtomicSession& session_;
  Duration time_out_;
};

}  // namespace farside::kv
