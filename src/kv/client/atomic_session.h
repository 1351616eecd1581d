// atomic_session.h — one client's conversation with all servers: it reads and writes sets of keys, sees its own writes,
// and never sees what it has read go back.
//
// A call that is cut short by an exception (memory was short), but for UsageError, tears the session: answers to its
// messages may still come, and a later call would take them for its own. Each later call throws Error.
//
// Thread safety: one thread at a time. A client with several threads has a session for each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/client/atomic_reader.h"
#include "kv/client/atomic_writer.h"
#include "kv/client/homes.h"
#include "kv/client/pulse.h"
#include "kv/client/request_source.h"
#include "kv/client/scanner.h"
#include "kv/protocol/server_memory.h"
#include "kv/protocol/time_limits.h"
#include "kv/protocol/wall_time.h"

namespace farside::kv {

struct SessionSettings {
  std::uint64_t session = 0;  ///< given once among all sessions that ever were
  ReadWay way = ReadWay::cells;
  /// list: RAMP-Fast, none: RAMP-Small, filter: RAMP-Hybrid; unless it is said, a list of few and a filter of many.
  std::optional<SiblingsKind> siblings{};
  std::size_t cached_keys = std::size_t{1} << 16U;
  Duration grace = time_limits::kGrace;  ///< the servers'
  WallTime wall{};
};

class AtomicSession {
 public:
  /// `requests` and the servers' memory outlive it, as do `homes`, when there are any: then `servers` are theirs.
  AtomicSession(Fabric& fabric, Channel& channel, Requests& requests, ServerMemories servers,
                const SessionSettings& settings, const KvRules& rules = {}, Homes* homes = nullptr);

  /// Returns an entry for each key. The entries are the session's, valid until its next get.
  Result<std::span<const Got>> get_all(std::span<const std::string_view> keys, Deadline deadline);
  PutOutcome put_all(std::span<const Write> writes, Deadline deadline);
  void put_each(
      std::span<IndependentPut> puts, Deadline deadline, const PutEnded& ended = [](IndependentPut&) {});
  /// Scanner::scan; what it finds is not of one moment.
  Result<Scanned> scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Deadline deadline);
  /// Returns the memory use of each server, by number.
  Result<std::vector<MemoryUse>> use(Deadline deadline);
  /// Session::hear.
  [[nodiscard]] std::vector<bool> hear();
  [[nodiscard]] bool is_torn() const noexcept { return is_torn_; }
  /// Now, on the clock that `expires_ns` is compared with.
  [[nodiscard]] std::uint64_t wall_ns() const { return clock_.wall_ns(); }
  /// The version that the latest put wrote, or tried to.
  [[nodiscard]] const Timestamp& last_put() const noexcept { return writer_.last(); }

 private:
  [[nodiscard]] VersionSource& source();
  /// Returns what `call` returns. The session is torn while it runs, and when it throws.
  template <class Call>
  auto whole(Call call);
  Result<std::span<const Got>> find_all(std::span<const std::string_view> keys, Deadline deadline);

  HybridClock clock_;
  Caller caller_;
  RequestSource asking_;
  std::unique_ptr<VersionSource> reading_;  // null: by asking
  std::optional<HomedSource> homed_;        // over that
  AtomicReader reader_;
  AtomicWriter writer_;
  Scanner scanner_;
  Pulse pulse_;
  std::vector<Got> got_;  // by the latest get
  bool is_torn_ = false;
};

}  // namespace farside::kv
