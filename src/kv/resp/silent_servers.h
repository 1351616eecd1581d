// silent_servers.h — which servers of the store kept a call waiting and have not answered anything since.
//
// Thread safety: every call, from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "base/mutex.h"

namespace farside::kv {

class SilentServers {
 public:
  using Clock = std::chrono::steady_clock;
  /// How a call uses a server. Reads often need no answer of it (ReadWay::cells): they count apart.
  enum class Use : std::uint8_t { read, write };
  enum class Answers : std::uint8_t {
    yes,
    perhaps,  ///< it is being found out
    no,       ///< it has been silent for as long as the limit
  };
  /// The answers of the servers that a call needs: the worst, and whose it is unless all answer.
  struct Worst {
    Answers answers = Answers::yes;
    std::uint32_t server = 0;
  };

  explicit SilentServers(std::chrono::milliseconds limit) : limit_(limit) {}

  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  [[nodiscard]] Answers to(Use use, std::uint32_t server) const;
  /// The same for calls that need all servers, for whatever.
  [[nodiscard]] Worst of_all() const;

  /// It keeps such a call waiting.
  void suspect(Use use, std::uint32_t server);
  /// These have answered (Session::hear). True if anything is other than when this was called last, time included.
  bool note(const std::vector<bool>& answered);

 private:
  struct Silent {
    Clock::time_point since = Clock::now();
    bool reads = false;
    bool writes = false;
    bool is_past_limit = false;  ///< and noted so
  };
  [[nodiscard]] Answers of(const Silent& silent) const;

  const std::chrono::milliseconds limit_;
  std::atomic<bool> any_ = false;
  mutable Mutex mutex_;
  std::map<std::uint32_t, Silent> silent_ GUARDED_BY(mutex_);
};

}  // namespace farside::kv
