// reconnecting_session.h — a session of a program that serves others as long as there is a store: it is opened anew
// when a server was lost and may be back, or when the pool was started anew.
//
// Thread safety: as a session; `open` is called by the thread that calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "farside/kv/client.h"
#include "farside/kv/session.h"

namespace farside::kv {

/// Thrown once by a call that found another pool in the place of the one before. Nothing was asked of the new one: what
/// the caller's clients know of the old one does not hold there. No Error: commands must not take it for a failure of
/// theirs.
struct StoreReplaced final : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "another pool is in the place of the one before"; }
};

class ReconnectingSession final : public Session {
 public:
  struct Opened {
    std::shared_ptr<void> owner;  ///< outlives the session
    std::unique_ptr<Session> session;
    std::uint64_t store = 0;  ///< another number: another pool than before
  };
  /// Throws Error when there is no store.
  using Open = std::function<Opened()>;

  explicit ReconnectingSession(Open open) : open_(std::move(open)), opened_(open_()) {}

  // Besides what Session says: throw StoreReplaced.
  Outcome get_all(std::span<const std::string_view> keys, std::vector<Got>& got) override;
  PutOutcome put_all(std::span<const Write> writes) override;
  void put_each(std::span<IndependentPut> puts) override;
  Outcome scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Scanned& scanned) override;
  Outcome use(std::vector<MemoryUse>& servers) override;
  [[nodiscard]] std::uint64_t wall_ns() const override { return opened_.session->wall_ns(); }

 private:
  /// If `doubted`, the servers are asked whether they are there. Not before a put_all: what it writes may lie where the
  /// session's last get left it.
  void renew_if_lost(bool& doubted);
  void renew();
  [[nodiscard]] bool is_server_lost();
  void note_loss(const std::string& what);
  Outcome noted(Outcome outcome);
  PutOutcome noted(PutOutcome outcome);

  Open open_;
  Opened opened_;
  // The last had no answer: a server is lost, or only slow. Reads that go on without it do not wait for it.
  bool read_doubted_ = false;
  bool put_doubted_ = false;
  bool lost_ = false;
  bool said_so_ = false;  // in the log
  std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace farside::kv
