// reclaimer.h — frees versions that have been superseded or erased for the grace time, in order of time, and the cells
// of keys that are gone. Of superseded versions no more are kept for so long than fill some memory; the oldest of those
// beyond go after a part of it: what is written all the time would otherwise be written to memory that no cache has.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "kv/server/cells.h"

namespace farside::kv {

class Reclaimer {
 public:
  Reclaimer(const Fabric& fabric, Channel& channel, const Region& region, Cells& cells, const KvRules& rules,
            Duration grace, std::uint64_t superseded_bytes)
      : fabric_(fabric),
        channel_(channel),
        region_(region),
        cells_(cells),
        rules_(rules),
        grace_(grace),
        most_superseded_bytes_(superseded_bytes) {}

  /// Schedules a version that was committed, superseded or settled: if it is over now, it goes when the grace time is.
  void schedule(Version& version);
  /// Frees at most `most` versions that are due at `now`. 0: none is.
  std::size_t reclaim(std::size_t most, Time now);
  /// Frees at most `most` superseded versions before their time: `at_once`, or those that have had the least part of
  /// the grace time. Their readers begin again.
  std::size_t reclaim_early(std::size_t most, Time now, bool at_once);
  void forget(const Timestamp& timestamp);
  /// From now on keys that go are noted in `gone_keys`.
  void note_gone_keys() { notes_gone_keys_ = true; }
  [[nodiscard]] std::vector<GoneKey>& gone_keys() noexcept { return gone_keys_; }
  /// No key without a cell had a committed version above this.
  [[nodiscard]] const Timestamp& forgotten() const noexcept { return forgotten_; }

 private:
  struct Due {
    Time at;
    VersionRef version;
    std::uint64_t bytes;
  };
  /// A superseded version stays for the grace time divided by this, in any case.
  static constexpr int kLeastPart = 20;
  /// So many are fetched into a cache ahead of their turn.
  static constexpr std::size_t kAhead = 4;
  [[nodiscard]] bool is_over(const Version& version) const;
  void put_off(Version& version);
  /// While superseded versions have more bytes than these, the oldest stay for `grace` only.
  struct Early {
    std::uint64_t beyond_bytes;
    Duration grace;
  };
  std::size_t reclaim_superseded(std::size_t most, Time now, const Early& early);
  std::size_t reclaim_erased(std::size_t most, Time now);
  bool reclaim(const Due& due);

  const Fabric& fabric_;
  Channel& channel_;
  const Region& region_;
  Cells& cells_;
  const KvRules& rules_;
  const Duration grace_;
  const std::uint64_t most_superseded_bytes_;
  std::deque<Due> superseded_;
  std::uint64_t superseded_bytes_ = 0;
  std::deque<Due> erased_;  // and not superseded, at that time
  Timestamp forgotten_;
  bool notes_gone_keys_ = false;
  std::vector<GoneKey> gone_keys_;
};

}  // namespace farside::kv
