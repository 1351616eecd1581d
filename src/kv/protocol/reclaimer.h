// reclaimer.h — frees versions that have been superseded or erased for the grace time, in order of time, and the cells
// of keys that are gone.
#pragma once

#include <cstdint>
#include <deque>

#include "kv/protocol/cells.h"

namespace farside::kv {

class Reclaimer {
 public:
  Reclaimer(const Fabric& fabric, Channel& channel, const Region& region, Cells& cells, const KvRules& rules,
            Duration grace)
      : fabric_(fabric), channel_(channel), region_(region), cells_(cells), rules_(rules), grace_(grace) {}

  /// Of a version that was committed, superseded or settled: if it is over now, it goes when the grace time is.
  void schedule(KeyVersions& history, Version& version);
  /// Frees at most `most` versions that are due at `now`. 0: none is.
  std::size_t reclaim(std::size_t most, Time now);
  void forget(const Timestamp& timestamp);
  /// No key without a cell had a committed version above this.
  [[nodiscard]] const Timestamp& forgotten() const noexcept { return forgotten_; }

 private:
  struct Due {
    Time at;
    KeyId key;
    Timestamp timestamp;
  };
  [[nodiscard]] bool is_over(KeyVersions& history, const Version& version) const;
  void put_off(const KeyVersions& history, Version& version);
  bool reclaim(const Due& due);

  const Fabric& fabric_;
  Channel& channel_;
  const Region& region_;
  Cells& cells_;
  const KvRules& rules_;
  const Duration grace_;
  std::deque<Due> due_;
  Timestamp forgotten_;
};

}  // namespace farside::kv
