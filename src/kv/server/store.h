// store.h — a server's keys and versions in its own memory, and what becomes of transactions. Knows no messages.
//
// It guarantees: what a call says is done can be found by READs when it returns; the newest committed version of a key
// is in the key's cell, and every version that may still be asked for is found by `among`; a cell with an empty slot
// has no version elsewhere.
//
// Thread safety: one thread at a time. All the memory that others READ is stored to from here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/protocol/answer.h"
#include "kv/protocol/layout.h"
#include "kv/protocol/rules.h"
#include "kv/protocol/siblings.h"
#include "kv/protocol/time_limits.h"
#include "kv/protocol/wall_time.h"

namespace farside::kv {

/// One server's part of a transaction.
struct Prepare {
  Timestamp timestamp;
  Siblings siblings;                      ///< all keys of the transaction; a key is its own sibling harmlessly
  std::span<const ServerNumber> servers;  ///< all that have part in it
  std::span<const Write> writes;          ///< of two of one key the later counts
};

/// A version where readers find it. Valid until the next call to the store.
struct FoundVersion {
  Timestamp timestamp;
  std::uint64_t generation;
  RecordPlace place;
};

/// The places that a store has given a version that it prepared, and its key's cell; offsets in its memory.
struct TakenPlace {
  std::uint64_t record;
  std::uint64_t record_chunk;  ///< Heap::chunk_of
  std::uint64_t cell;          ///< an IndexWord
  std::uint64_t cell_chunk;

  friend bool operator==(const TakenPlace&, const TakenPlace&) = default;
};
static_assert(sizeof(TakenPlace) == 32 && std::has_unique_object_representations_v<TakenPlace>);

/// A key that was erased, or has expired, and the version with which all that was kept of it has gone.
struct GoneKey {
  KeyId key;
  Timestamp timestamp;

  friend bool operator==(const GoneKey&, const GoneKey&) = default;
};
static_assert(sizeof(GoneKey) == 32 && std::has_unique_object_representations_v<GoneKey>);

struct StoreSettings {
  std::uint64_t bytes = 64U << 20U;            ///< of the memory, index included
  Duration grace = time_limits::kGrace;        ///< for which superseded versions can be asked for
  std::uint64_t superseded_bytes = 2U << 20U;  ///< of them; the oldest of more, for a twentieth of the grace time
  WallTime wall{};
};

/// A transaction of which nothing has been heard for a while.
struct UnresolvedTransaction {
  Timestamp timestamp;
  std::vector<ServerNumber> servers;
  std::uint64_t bytes = 0;  ///< of the versions that are prepared for it here
};

/// How a session's transactions ended here.
struct EndedTransactions {
  struct Ended {
    std::uint64_t time;
    bool is_committed;                  ///< or else barred
    std::vector<ServerNumber> servers;  ///< where it may be not; none: it is committed everywhere
  };
  std::uint64_t session;
  std::uint64_t settled;     ///< up to this time all are over everywhere
  std::uint64_t floor;       ///< up to this time all are barred, but for those that are prepared or listed
  std::vector<Ended> since;  ///< ascending
};

/// A version as it is kept, and where.
struct KeptVersion {
  std::vector<std::byte> record;
  TakenPlace place;
  bool is_conditional = false;  ///< of one that is prepared
};

class Store {
 public:
  /// Lays out `memory`, which is zeroed, and keeps it. `channel` orders what it stores.
  /// Throws UsageError when the memory is too small for anything.
  Store(const Fabric& fabric, Channel& channel, const Region& memory, const StoreSettings& settings,
        const KvRules& rules = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Transactions.

  /// Whatever is refused is barred: its client may then abort it at the others.
  Answered prepare(const Prepare& part);
  /// done, also when it was committed before; unknown; barred.
  Answered commit(const Timestamp& transaction);
  /// Aborts a transaction that is prepared and not committed. Bars the timestamp in any case.
  void abort(const Timestamp& transaction);
  /// A transaction that is whole here, prepared and committed at once.
  Answered put(const Timestamp& timestamp, std::span<const Write> writes, const Siblings& siblings);
  Answered put(const Timestamp& timestamp, const Write& write) {
    return put(timestamp, {&write, 1}, {SiblingsKind::list, {}});
  }
  /// The session's transactions up to this one are committed or given up everywhere, and no server will ask again:
  /// their versions' marks say so (kSettled).
  void settle(const Timestamp& up_to);
  /// This one, which is committed here, is so at all servers: its versions' marks say so (kEverywhere).
  void note_everywhere(const Timestamp& transaction);

  // Termination.

  /// Returns the state of a transaction here. Bars it before it says aborted.
  Fate fate_or_bar(const Timestamp& transaction);
  /// Prepared before `before`.
  [[nodiscard]] std::vector<UnresolvedTransaction> undecided(Time before) const;
  /// Committed before `before`, and perhaps not everywhere.
  [[nodiscard]] std::vector<UnresolvedTransaction> unsettled(Time before);

  // Versions.

  [[nodiscard]] std::optional<FoundVersion> newest(std::string_view key) const;
  /// Exactly that version, committed or not.
  [[nodiscard]] std::optional<FoundVersion> at(std::string_view key, const Timestamp& timestamp) const;
  /// The one with the highest timestamp among `candidates`, which ascend, committed or not; or else the newest
  /// committed (RAMP-Small).
  [[nodiscard]] std::optional<FoundVersion> among(std::string_view key, std::span<const Timestamp> candidates) const;
  /// The bytes of a version's record, whole.
  [[nodiscard]] std::vector<std::byte> record(const FoundVersion& version) const;
  /// Keys that begin with `prefix` and have a committed version that is not erased, among about `about` keys from place
  /// `cursor` of the index on. Those of them that have expired are counted no longer (`use`).
  [[nodiscard]] Scanned scan(std::uint64_t cursor, std::string_view prefix, std::size_t about);

  /// Frees what has been superseded or erased for the grace time; at most `most` versions.
  std::size_t reclaim(std::size_t most);

  [[nodiscard]] MemoryUse use() const;
  /// The highest timestamp whose key is gone.
  [[nodiscard]] Timestamp forgotten() const;

  // State that a journal keeps beside the changes.

  /// It is prepared or committed here: whatever is asked of it changes no memory.
  [[nodiscard]] bool has(const Timestamp& transaction) const;
  /// The places of the prepare before, which was done: one for each key.
  [[nodiscard]] std::vector<TakenPlace> taken_places() const;
  /// From now on keys that go are noted.
  void note_gone_keys();
  /// Those that have gone since the last call.
  [[nodiscard]] std::vector<GoneKey> take_gone_keys();
  [[nodiscard]] std::size_t gone_keys() const;
  /// Returns the versions that the transaction is to write here; none: it is not prepared.
  [[nodiscard]] std::vector<KeptVersion> prepared(const Timestamp& transaction) const;
  /// The key's newest committed version. None: it has none.
  [[nodiscard]] std::optional<KeptVersion> newest_kept(std::string_view key) const;
  /// Newest committed versions, of erased keys too, among `about` so many keys from place `cursor` of the index on;
  /// fewer where they are large, or few.
  struct Walked {
    std::vector<KeptVersion> versions;
    std::uint64_t next;  ///< 0: that was all
    std::uint64_t of;    ///< places of the index
  };
  [[nodiscard]] Walked walk(std::uint64_t cursor, std::size_t about) const;
  [[nodiscard]] std::vector<EndedTransactions> ended() const;
  struct Forgotten {
    Timestamp keys;          ///< the highest timestamp whose key is gone
    std::uint64_t sessions;  ///< the highest time of a session that is
  };
  [[nodiscard]] Forgotten all_forgotten() const;

  // Recovery, in the order of the changes; no reader is served meanwhile. Answers are done or full. A version that has
  // expired by now comes back as erased, so that it needs no room.

  /// Prepares what was prepared, whatever is newer by now.
  Answer restore(const Prepare& part);
  /// The same, in memory that is laid out as another store's: each version lies where that has put it. refused: it
  /// cannot, for something else lies there.
  Answer restore_at(const Prepare& part, std::span<const TakenPlace> places);
  /// The other store has given back all it had of the key.
  void drop_gone(const GoneKey& gone);
  /// Commits what is prepared. Versions of what is not are restored by themselves, or were superseded.
  void restore_commit(const Timestamp& transaction, std::span<const ServerNumber> servers);
  /// One committed version of a transaction; `settled`: what its mark says of that.
  Answer restore_version(const Timestamp& timestamp, const Siblings& siblings, const Write& write,
                         std::uint64_t settled);
  /// The same, in memory that is laid out as another store's, where it lies at `place`. refused: it cannot.
  Answer restore_version_at(const Timestamp& timestamp, const Siblings& siblings, const Write& write,
                            std::uint64_t settled, const TakenPlace& place);
  void forget(const Forgotten& forgotten);
  /// Bars the session's transactions up to this one, but for those that are prepared or have ended here.
  void bar_unknown(const Timestamp& up_to);
  /// Announces committed versions of keys that are there or still to come: older ones need no room any more.
  void expect(std::map<KeyId, Timestamp> later);
  /// Frees all that is superseded or erased.
  void reclaim_at_once();

 private:
  struct State;
  /// Takes the room for all that it writes, which State::placed says then. Done: there was, and it may be.
  Answered place(const Prepare& part);

  std::unique_ptr<State> state_;
};

}  // namespace farside::kv
