// store_state.h — what a store consists of. For the store's own files: store.cc has what becomes of transactions,
// store_versions.cc what is read and given back, store_recovery.cc what a journal needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kv/protocol/record.h"
#include "kv/server/cells.h"
#include "kv/server/expiries.h"
#include "kv/server/placement.h"
#include "kv/server/reclaimer.h"
#include "kv/server/store.h"
#include "kv/server/transactions.h"

namespace farside::kv {

struct Store::State {
  State(const Fabric& fabric_, Channel& channel_, const Region& region_, const StoreSettings& settings,
        const KvRules& rules_);

  /// Whether the transaction may be prepared, but for want of room.
  [[nodiscard]] Answered judge(const Timestamp& transaction) const;
  [[nodiscard]] bool is_as_expected(const PlacedWrite& write) const;
  [[nodiscard]] bool is_absent(const PlacedWrite& write) const;
  /// Adds the writes that are placed.
  void add(const Prepare& part);
  /// It can be seen after a `show`, once a fence stands between them.
  Version& write(const Prepare& part, const PlacedWrite& where);
  void show(Version& version, const PlacedWrite& write);
  /// Puts the write that is placed, a transaction of one key. Returns the key's newest.
  Timestamp put(const Prepare& part);
  /// Commits a version that is prepared. Returns the key's newest.
  Timestamp commit(Version& version, std::uint64_t settled);
  void drop(Version& version);
  /// After so many versions were committed: gives back more than they may have superseded, if it is due, so that memory
  /// does not fill up with superseded versions, however fast clients write.
  void reclaim_after(std::size_t committed);
  void say_visible() const {
    if (rules.visible_before_answering) channel.local_fence();
  }
  void settle(const WrittenVersion& written, const Timestamp& transaction, std::uint64_t bits);
  /// The version that is placed, of a transaction whose other versions are restored by themselves.
  void add_restored(const Prepare& part, std::uint64_t settled);
  /// Whether the placed write's version is here already.
  [[nodiscard]] bool is_there(const Timestamp& timestamp) const {
    const PlacedWrite& only = placed.front();
    return only.cell && cells.at(only.key, *only.cell, timestamp).has_value();
  }
  [[nodiscard]] KeptVersion kept(const KeyId& key, const IndexWord& cell, const FoundVersion& version) const;
  /// Refuses a transaction that is not prepared and will not be.
  Answered refuse(const Timestamp& transaction, const Answered& answered) {
    if (rules.bars_before_saying_no) transactions.bar(transaction);
    return answered;
  }
  [[nodiscard]] std::uint64_t wall_ns() const { return wall.now_ns(fabric); }
  [[nodiscard]] bool is_expired(const RecordHead& record) const {
    return record.expires_ns != 0 && record.expires_ns <= wall_ns();
  }
  /// Those of the transaction that are to be restored.
  [[nodiscard]] std::vector<Write> still_wanted(const Timestamp& transaction, std::span<const Write> writes) const;
  /// Versions that bear the transaction's timestamp.
  void drop_restored(const Prepare& part);
  void drop_older(const KeyId& key, const Timestamp& than);
  /// The background walk.
  void look_for_expired();
  /// Walks on for keys that have expired, over so many buckets, until it has found about so many keys. From then on
  /// they are to the server as if erased. Returns how many it has found.
  std::size_t find_expired(std::uint64_t buckets, std::size_t keys);
  std::size_t expire_keys_of(std::uint64_t bucket);
  void expire(const KeyId& key, const IndexWord& cell);
  [[nodiscard]] RecordHead head_of(const FoundVersion& version) const {
    RecordHead record;
    region.copy_out(version.place.offset, std::as_writable_bytes(std::span(&record, 1)));
    return record;
  }
  [[nodiscard]] std::uint64_t expires_ns_of(const Version& version) const {
    return region.word<ControlWord>(version.place.offset + offsetof(RecordHead, expires_ns)).load();
  }
  [[nodiscard]] std::string key_of(const FoundVersion& version, const RecordHead& record) const;

  const Fabric& fabric;
  Channel& channel;
  const Region& region;
  const KvRules rules;
  const WallTime wall;
  std::uint64_t next_generation = 1;
  const MemoryHead head;  // as it was in the beginning
  Index index;
  Heap heap;
  Cells cells;
  Placement placement;
  Reclaimer reclaimer;
  Transactions transactions;
  std::vector<PlacedWrite> placed;      // of the prepare under way
  std::vector<std::byte> record_bytes;  // of the write under way
  Expiries expiries;
  Time looked_for_expired{};
  std::map<KeyId, Timestamp> to_come;  // in recovery: committed versions beside which older ones are not restored
};

}  // namespace farside::kv
