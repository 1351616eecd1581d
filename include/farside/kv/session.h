// session.h — one thread's conversation with a store: sets of keys are read and written so that every session sees all
// of a set or nothing (read atomic; docs/protocols/kv.md), whichever servers have them.
//
// A session sees its own writes, and what it has read never goes back. A put that returned done is seen by every get
// that begins later.
//
// Each call waits for at most the time-out that the session was opened with, or has now (set_time_out). Keys have 1 B
// to 64 KiB, values 0 B to 16 MiB, and what one server has of a set 64 MiB at most; UsageError is thrown for more, and
// when a put names a key twice.
//
// An exception that cuts a call short (std::bad_alloc; not UsageError) ends the session: each later call throws Error,
// since answers to the messages of that call may still come.
//
// Thread safety: one thread at a time. A program with several threads has a session for each.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "farside/fabric/channel.h"
#include "farside/kv/types.h"

namespace farside::kv {

using PutEnded = std::function<void(IndependentPut& put)>;

class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  /// Returns an entry for each key, all as they were at one moment. The entries are the session's, valid until its next
  /// get.
  virtual Result<std::span<const Got>> get_all(std::span<const std::string_view> keys) = 0;
  /// All of the writes or none. Those that name a version they expect are refused as a whole (differs) unless each of
  /// these versions is its key's newest, and stays so until all is written.
  virtual PutOutcome put_all(std::span<const Write> writes) = 0;
  /// Each of the puts as put_all does it, all under way at once, in no order. `ended` is called on this thread for each
  /// as soon as it has ended, which may be long before the call has: nothing that the put names is used afterwards.
  /// Before it throws UsageError nothing is written.
  virtual void put_each(std::span<IndependentPut> puts, const PutEnded& ended) = 0;
  void put_each(std::span<IndependentPut> puts) {
    put_each(puts, [](IndependentPut&) {});
  }

  /// Returns about `about` keys that begin with `prefix`, from `cursor` on, which is 0 at first; not of one moment. A
  /// key that is there from the first call to the last is found, perhaps twice.
  virtual Result<Scanned> scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) = 0;
  /// Returns the memory use of each server, by number.
  virtual Result<std::vector<MemoryUse>> use() = 0;
  /// The number of the key's server, if this session has lost it: calls that need the key fail. Never waits.
  [[nodiscard]] virtual std::optional<std::uint32_t> lost_server_of(std::string_view /*key*/) const {
    return std::nullopt;
  }
  /// A server that it reached, or should, is lost to it: a session that is opened now may reach more. Never waits.
  [[nodiscard]] virtual bool has_lost_server() const { return false; }
  /// How many servers there are. Never waits.
  [[nodiscard]] virtual std::uint32_t servers() const { return 1; }
  /// The number of the key's server, lost or not. Never waits.
  [[nodiscard]] virtual std::uint32_t server_of(std::string_view /*key*/) const { return 0; }
  /// Returns for each server, by number, whether it has answered, or was lost, since it was asked here. Asks, without
  /// waiting, the servers that owe no answer. A session on which this is called is otherwise asked only where keys are.
  [[nodiscard]] virtual std::vector<bool> hear() { return {true}; }
  /// From the next call on. A session that has no time-out ignores it.
  virtual void set_time_out(std::chrono::milliseconds /*time_out*/) {}
  /// Now, on the clock that `expires_ns` is compared with.
  [[nodiscard]] virtual std::uint64_t wall_ns() const = 0;

  /// As get_all: the entry's value is valid until the next get.
  Result<Got> get(std::string_view key);
  PutOutcome put(std::string_view key, std::string_view value, std::uint64_t expires_ns = 0);
  PutOutcome erase(std::string_view key) { return erase_all({&key, 1}); }
  PutOutcome erase_all(std::span<const std::string_view> keys);
};

}  // namespace farside::kv
