// reconnecting_session.h — a session of a program that serves others as long as there is a store: it is opened anew
// when a server was lost and may be back, or when the pool was started anew. Another thread does that, at most once a
// second, while calls go on with what the session has.
//
// Thread safety: as a session; `open` is called first by the constructor, then by threads of its own, one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
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
  Result<std::span<const Got>> get_all(std::span<const std::string_view> keys) override;
  PutOutcome put_all(std::span<const Write> writes) override;
  void put_each(std::span<IndependentPut> puts, const PutEnded& ended) override;
  Result<Scanned> scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) override;
  Result<std::vector<MemoryUse>> use() override;
  [[nodiscard]] std::optional<std::uint32_t> lost_server_of(std::string_view key) const override {
    return opened_.session->lost_server_of(key);
  }
  [[nodiscard]] bool has_lost_server() const override { return opened_.session->has_lost_server(); }
  [[nodiscard]] std::uint32_t servers() const override { return opened_.session->servers(); }
  [[nodiscard]] std::uint32_t server_of(std::string_view key) const override { return opened_.session->server_of(key); }
  [[nodiscard]] std::vector<bool> hear() override;
  [[nodiscard]] std::uint64_t wall_ns() const override { return opened_.session->wall_ns(); }

 private:
  /// Takes a session that has been opened anew, or has one opened if a server is lost. Not before a put_all: what it
  /// writes may lie where the session's last get left it.
  void renew_if_lost();
  void take_renewed();
  void note_loss(const std::string& what);
  /// Returns `result`, and records that a server is lost if its status says so.
  template <class T>
  Result<T> noted(Result<T> result) {
    lost_ = lost_ || result.status == Outcome::peer_lost;
    return result;
  }

  Open open_;
  Opened opened_;
  std::future<Opened> renewed_;
  bool lost_ = false;     // a call said so
  bool said_so_ = false;  // in the log
  std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace farside::kv
