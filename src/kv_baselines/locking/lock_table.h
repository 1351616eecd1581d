// lock_table.h — strict two-phase locking, what RAMP is compared with: a server's locks. No session waits in it: a
// session that cannot have a lock is refused, releases all its locks and tries again, so there is no deadlock
// (NO_WAIT).
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kv/protocol/key_id.h"

namespace farside::kv_baselines {

class LockTable {
 public:
  enum class Mode : std::uint8_t { shared, exclusive };

  /// Whether `session` has it now. A shared lock becomes exclusive if no other session has it.
  bool take(std::uint64_t session, const kv::KeyId& key, Mode mode);
  /// All locks of `session`.
  void release(std::uint64_t session);

  [[nodiscard]] std::size_t held() const noexcept { return locks_.size(); }

 private:
  struct Lock {
    Mode mode = Mode::shared;
    std::vector<std::uint64_t> holders;
  };

  std::unordered_map<kv::KeyId, Lock, kv::KeyIdHash> locks_;
  std::unordered_map<std::uint64_t, std::vector<kv::KeyId>> held_;  // by session
};

}  // namespace farside::kv_baselines
