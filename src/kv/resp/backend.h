// backend.h — what the Redis protocol needs of a store, and nothing more.
//
// Thread safety: one thread at a time. Calls may wait, for at most as long as the store's own deadline.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "farside/kv/types.h"

namespace farside::kv {

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Now, on the clock that `expires_ns` is compared with.
  [[nodiscard]] virtual std::uint64_t wall_ns() const = 0;

  /// All of the keys, which differ, as they were at one moment: `got` has one for each. What it points to is valid
  /// until the next get. False: no answer in time.
  [[nodiscard]] virtual bool get(std::span<const std::string_view> keys, std::vector<Got>& got) = 0;

  /// All of the writes, whose keys differ and are as expected, or none.
  [[nodiscard]] virtual PutOutcome put(std::span<const Write> writes) = 0;

  /// About `about` keys that begin with `prefix`, from `cursor` on, which is 0 at first. A key that is there from the
  /// first call to the last is found; one may be found twice. None: no answer in time.
  [[nodiscard]] virtual std::optional<Scanned> scan(std::uint64_t cursor, std::string_view prefix,
                                                    std::size_t about) = 0;
  /// Of each server. None: no answer in time.
  [[nodiscard]] virtual std::optional<std::vector<MemoryUse>> use() = 0;
};

}  // namespace farside::kv
