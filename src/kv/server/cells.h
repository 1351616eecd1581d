// cells.h — the versions of keys: in their cells, where others find them, and in the server's own notes of those keys
// of which something is prepared, superseded or erased. The cells of all other keys say everything.
//
// One slot of a cell is stored to at a time, never that of the newest committed version; after each store the cell has
// its seal again. What a call has stored is visible after the next local_fence: one stands between a record and its
// slot.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "farside/fabric/region.h"

#include "kv/protocol/rules.h"
#include "kv/server/heap.h"
#include "kv/server/index.h"
#include "kv/server/store.h"
#include "kv/server/versions.h"

namespace farside::kv {

class Cells {
 public:
  Cells(const Region& region, const KvRules& rules, Heap& heap, Index& index)
      : region_(region), rules_(rules), heap_(heap), index_(index) {}

  // Looking.

  [[nodiscard]] std::optional<FoundVersion> newest(const IndexWord& cell) const;
  /// Exactly that version, committed or not.
  [[nodiscard]] std::optional<FoundVersion> at(const KeyId& key, const IndexWord& cell,
                                               const Timestamp& timestamp) const;
  /// The one with the highest timestamp among `candidates`, which ascend, committed or not.
  [[nodiscard]] std::optional<FoundVersion> among(const KeyId& key, const IndexWord& cell,
                                                  std::span<const Timestamp> candidates) const;
  /// Keys whose newest committed version is not erased.
  [[nodiscard]] std::uint64_t keys() const noexcept { return keys_; }
  [[nodiscard]] std::uint64_t versions() const noexcept { return index_.keys() + noted_ - noted_keys_.size(); }

  // Changing.

  /// The size of the cell of a key whose first record has so many bytes.
  [[nodiscard]] static std::uint64_t cell_bytes(std::uint64_t record_bytes);
  /// A key's empty cell, not in the index.
  KeyVersions& create(const KeyId& key, const IndexWord& cell, std::uint64_t generation);
  /// Notes what the cell says, unless that was done.
  KeyVersions& open(const KeyId& key, const IndexWord& cell);
  /// Null: nothing is noted.
  [[nodiscard]] KeyVersions* opened(const KeyId& key);
  /// Forgets the notes if the cell says it all.
  void close(KeyVersions& history);
  /// Requires that the key has no versions any more.
  void remove(const KeyVersions& history);

  /// A prepared one, which is not in a slot before `show`, or `commit`.
  Version& add(KeyVersions& history, const Version& version, std::span<const std::byte> record);
  /// One that was added. Slots are for the newest committed version and for those with the highest timestamps.
  void show(Version& version);
  /// Returns the newest committed version before; null: there was none.
  Version* commit(Version& version);
  /// The newest committed version is from now on as one that is erased.
  void expire(KeyVersions& history);
  /// Its record and its place in the cell go.
  void drop(Version& version);
  /// Makes the newest committed version's mark true. All others are marked from the beginning.
  void mark_newest(KeyVersions& history);
  /// `settled`: kEverywhere, kSettled.
  void mark_settled(Version& version, std::uint64_t settled) { set_mark(version, version.mark | settled); }

 private:
  template <class Consider>
  void for_each_slot(const IndexWord& cell, Consider consider) const;
  void store_slot(const KeyVersions& history, std::size_t number, const Version& version);
  void set_mark(Version& version, std::uint64_t mark);
  /// Whether the cell has room for the version's record.
  [[nodiscard]] static bool fits(const KeyVersions& history, const Version& version);
  void copy(const KeyVersions& history, const Version& newest);
  [[nodiscard]] static std::uint64_t copy_of(const KeyVersions& history) {
    return history.cell.offset + sizeof(CellHead);
  }
  [[nodiscard]] LocalWord<ControlWord> mark_of(std::uint64_t record) const {
    return region_.word<ControlWord>(record + offsetof(RecordHead, mark));
  }
  /// When others than the last that came may have to have one.
  void give_slots(KeyVersions& history);
  bool give_slot(KeyVersions& history, const Version& unseen);
  /// Returns the least needed slot of a history that has all slots.
  [[nodiscard]] static Timestamp* least_needed(KeyVersions& history);
  [[nodiscard]] static bool shares_place(const KeyVersions& history, const Version& version);

  const Region& region_;
  const KvRules& rules_;
  Heap& heap_;
  Index& index_;
  VersionPlaces places_;
  std::unordered_map<KeyId, KeyVersions, KeyIdHash> noted_keys_;
  std::uint64_t noted_ = 0;  // versions in them
  std::uint64_t keys_ = 0;
};

template <class Consider>
void Cells::for_each_slot(const IndexWord& cell, Consider consider) const {
  CellHead head;
  region_.copy_out(cell.offset, std::as_writable_bytes(std::span(&head, 1)));
  for (std::size_t i = 0; i < CellHead::kSlots; ++i) {
    const CellSlot& slot = head.slots[i];
    const RecordPlace place = RecordPlace::from_word(slot.place);
    if (place.state != VersionState::empty) consider(FoundVersion{slot.timestamp, slot.generation, place}, i);
  }
}

}  // namespace farside::kv
