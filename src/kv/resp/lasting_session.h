// lasting_session.h — a session for who serves others as long as there is a store: it is opened anew when a server that
// it had is lost, and is perhaps back.
//
// Thread safety: as a session; `open` is called by whoever calls.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "farside/kv/session.h"

namespace farside::kv {

class LastingSession final : public Session {
 public:
  using Open = std::function<std::unique_ptr<Session>()>;

  explicit LastingSession(Open open) : open_(std::move(open)), session_(open_()) {}

  Outcome get_all(std::span<const std::string_view> keys, std::vector<Got>& got) override;
  PutOutcome put_all(std::span<const Write> writes) override;
  void put_each(std::span<IndependentPut> puts) override;
  Outcome scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Scanned& scanned) override;
  Outcome use(std::vector<MemoryUse>& servers) override;
  [[nodiscard]] std::uint64_t wall_ns() const override { return session_->wall_ns(); }

 private:
  /// If `doubted`, the servers are asked whether they are there. Not before a put_all: what it writes may lie where the
  /// session's last get left it.
  void renew_if_lost(bool& doubted);
  Outcome noted(Outcome outcome);
  PutOutcome noted(PutOutcome outcome);

  Open open_;
  std::unique_ptr<Session> session_;
  // The last had no answer: a server is lost, or only slow. Reads that go on without it do not wait for it.
  bool read_doubted_ = false;
  bool put_doubted_ = false;
  bool lost_ = false;
  std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace farside::kv
