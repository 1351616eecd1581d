// cell_source.h — reading by READs alone: index, cell, record. The servers may compute, sleep or be stopped.
//
// With a key's cell known it is one round of READs, or two when the newest version is neither copied in the cell nor
// the one this client last saw; with nothing known one more. Asked are servers only about versions that are not in
// their cells for want of room.
//
// Thread safety: one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/client/place_cache.h"
#include "kv/client/search.h"
#include "kv/protocol/index_words.h"
#include "kv/protocol/rules.h"
#include "kv/protocol/server_memory.h"

namespace farside::kv {

class CellSource final : public VersionSource {
 public:
  /// `servers` by number. `fallback` asks them.
  CellSource(Channel& channel, ServerMemories servers, VersionSource& fallback, std::size_t cached_keys,
             const KvRules& rules = {})
      : channel_(channel), servers_(servers), fallback_(fallback), cells_(cached_keys), rules_(rules) {}

  Outcome find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) override;
  void forget_places() override { cells_.clear(); }

 private:
  static constexpr unsigned kTries = 8;  ///< of a key whose versions go as fast as they are found

  /// The place of a key's cell, and of its newest record when that was last seen.
  struct Place {
    IndexWord cell;
    std::uint64_t generation = 0;  ///< of the record; 0: it was copied in the cell
    RecordPlace record;
  };
  /// The next step of a walk.
  enum class Step : std::uint8_t { bucket, cell, record, ask, finished };
  struct Walk {
    Search* search = nullptr;
    const ServerMemory* server = nullptr;
    Step step = Step::bucket;
    std::uint64_t bucket = 0;
    std::uint64_t buckets_seen = 0;
    IndexBucketWords words{};
    IndexCandidates found;  // in that bucket; those before `next` have been looked at
    std::size_t next = 0;
    bool place_was_cached = false;
    Place place;
    Message cell;
    unsigned tries = 0;
  };

  void begin(Walk& walk, Search& search);
  void post(Walk& walk, Batch& batch);
  void advance(Walk& walk);
  void look_into_bucket(Walk& walk);
  void try_next_cell(Walk& walk);
  void look_into_cell(Walk& walk);
  void finish_absent(Walk& walk);
  void take(Walk& walk, const CellSlot& slot);
  void look_at_record(Walk& walk);
  void try_again(Walk& walk);
  /// Whether the bytes READ are the record with that generation: then it is found.
  bool accept(Walk& walk, std::uint64_t generation);
  void search_anew(Walk& walk);

  Channel& channel_;
  ServerMemories servers_;
  VersionSource& fallback_;
  PlaceCache<Place> cells_;
  KvRules rules_;
  std::vector<Walk> walks_;  // kept for their buffers
  std::vector<Search*> asked_;
  std::span<const Timestamp> candidates_;  // of the find under way
};

}  // namespace farside::kv
