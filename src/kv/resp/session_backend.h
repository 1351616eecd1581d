// session_backend.h — farside's own store behind the Redis protocol: a session of one thread.
#pragma once

#include "kv/protocol/session.h"
#include "kv/resp/backend.h"

namespace farside::kv {

class SessionBackend final : public Backend {
 public:
  /// Both outlive it. Each call waits for at most `patience`.
  SessionBackend(const Fabric& fabric, Session& session, Duration patience)
      : fabric_(fabric), session_(session), patience_(patience) {}

  [[nodiscard]] std::uint64_t wall_ns() const override { return session_.wall_ns(); }
  [[nodiscard]] bool get(std::span<const std::string_view> keys, std::vector<Got>& got) override {
    return session_.get_all(keys, got, fabric_.in(patience_)) == Outcome::done;
  }
  [[nodiscard]] PutOutcome put(std::span<const Write> writes) override {
    return session_.put_all(writes, fabric_.in(patience_));
  }
  [[nodiscard]] std::optional<Scanned> scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) override;
  [[nodiscard]] std::optional<std::vector<MemoryUse>> use() override;

 private:
  const Fabric& fabric_;
  Session& session_;
  Duration patience_;
};

}  // namespace farside::kv
