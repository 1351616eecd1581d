// cells.h — the versions of keys: in their cells, where others find them, and in the server's own notes of those keys
// of which something is prepared, superseded or erased. Of all other keys the cell says everything.
//
// Records are stored before slots that name them, and of a cell one slot at a time, never that of the newest committed
// version; after each the cell has its seal again. What a call has stored is visible after the next local_fence.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "farside/fabric/channel.h"

#include "kv/protocol/heap.h"
#include "kv/protocol/index.h"
#include "kv/protocol/rules.h"
#include "kv/protocol/store.h"

namespace farside::kv {

/// A version as the server has noted it.
struct Version {
  static constexpr Time kNotDue{std::numeric_limits<std::int64_t>::max()};

  Timestamp timestamp;
  std::uint64_t generation = 0;
  RecordPlace place;
  bool erased = false;
  bool conditional = false;  ///< nothing comes between it and what its writer expected
  std::uint64_t mark = 0;    ///< its bits, as in its record
  Time due = kNotDue;        ///< when it may be reclaimed: it is superseded or erased

  [[nodiscard]] bool committed() const { return place.state == VersionState::committed; }
};

/// All versions of a key. There may be thousands: of one that is written all the time. They come at the end and go at
/// the beginning, or nearly so.
struct KeyVersions {
  KeyId key;
  IndexWord cell;
  std::deque<Version> versions;                   ///< by timestamp
  std::array<Timestamp, CellHead::kSlots> slots;  ///< whose they are; 0: nobody's

  /// Where it is, or belongs.
  [[nodiscard]] std::deque<Version>::const_iterator place_of(const Timestamp& timestamp) const;
  [[nodiscard]] const Version* find(const Timestamp& timestamp) const;
  [[nodiscard]] Version* find(const Timestamp& timestamp) {
    return const_cast<Version*>(std::as_const(*this).find(timestamp));
  }
  /// The same, sooner when it is the oldest.
  [[nodiscard]] Version* find_old(const Timestamp& timestamp) {
    const bool is_oldest = !versions.empty() && versions.front().timestamp == timestamp;
    return is_oldest ? &versions.front() : find(timestamp);
  }
  /// In place of what bears the timestamp. Others of the key are found anew after it.
  Version& put(const Version& version);
  [[nodiscard]] Version* newest();  ///< of the committed
  /// The highest timestamp of all.
  [[nodiscard]] Timestamp last() const { return versions.empty() ? Timestamp{} : versions.back().timestamp; }
  /// That of the last conditional version that is prepared above all that are committed; 0: there is none.
  [[nodiscard]] Timestamp last_conditional() const;
  [[nodiscard]] bool is_there() {
    const Version* last = newest();
    return last != nullptr && !last->erased;
  }
  /// The cell says it all.
  [[nodiscard]] bool is_quiet() const {
    return versions.size() == 1 && versions.front().committed() && !versions.front().erased;
  }
  /// The server alone knows of it.
  [[nodiscard]] bool is_unseen(const Version& version) const {
    return std::ranges::find(slots, version.timestamp) == slots.end();
  }
};

class Cells {
 public:
  Cells(const Region& region, Channel& channel, const KvRules& rules, Heap& heap, Index& index)
      : region_(region), channel_(channel), rules_(rules), heap_(heap), index_(index) {}

  // Looking.

  [[nodiscard]] std::optional<FoundVersion> newest(const IndexWord& cell) const;
  /// Exactly that version, committed or not.
  [[nodiscard]] std::optional<FoundVersion> at(const KeyId& key, const IndexWord& cell,
                                               const Timestamp& timestamp) const;
  /// The one with the highest timestamp among `candidates`, which ascend, committed or not.
  [[nodiscard]] std::optional<FoundVersion> among(const KeyId& key, const IndexWord& cell,
                                                  std::span<const Timestamp> candidates) const;
  /// Of which the newest committed version is not erased.
  [[nodiscard]] std::uint64_t keys() const noexcept { return keys_; }
  [[nodiscard]] std::uint64_t versions() const noexcept { return index_.keys() + noted_ - noted_keys_.size(); }

  // Changing.

  /// Of the cell of a key whose first record has so many.
  [[nodiscard]] static std::uint64_t cell_bytes(std::uint64_t record_bytes);
  /// A key's empty cell, not in the index.
  KeyVersions& create(const KeyId& key, const IndexWord& cell, std::uint64_t generation);
  /// Notes what the cell says, unless that was done.
  KeyVersions& open(const KeyId& key, const IndexWord& cell);
  /// Null: nothing is noted.
  [[nodiscard]] KeyVersions* opened(const KeyId& key);
  /// Forgets the notes if the cell says it all.
  void close(const KeyVersions& history);
  /// Of a key that has no versions any more.
  void remove(const KeyVersions& history);

  /// A prepared one, which is not in a slot before `show`.
  void add(KeyVersions& history, const Version& version, std::span<const std::byte> record);
  /// Slots are for the newest committed version and for those with the highest timestamps.
  void show(KeyVersions& history);
  /// What was the newest committed version before; null: there was none.
  Version* commit(KeyVersions& history, const Timestamp& timestamp);
  /// The newest committed version is from now on as one that is erased.
  void expire(KeyVersions& history);
  /// Its record and its place in the cell go.
  void drop(KeyVersions& history, Timestamp timestamp);
  /// Makes the newest committed version's mark true. All others are marked from the beginning.
  void mark_newest(KeyVersions& history);
  /// `settled`: kEverywhere, kSettled.
  void mark_settled(KeyVersions& history, Version& version, std::uint64_t settled) {
    set_mark(history, version, version.mark | settled);
  }

 private:
  template <class Consider>
  void for_each_slot(const IndexWord& cell, Consider consider) const;
  void store_slot(const KeyVersions& history, std::size_t number, const Version& version);
  void set_mark(KeyVersions& history, Version& version, std::uint64_t mark);
  /// Whether the cell has room for the version's record.
  [[nodiscard]] static bool fits(const KeyVersions& history, const Version& version);
  void copy(const KeyVersions& history, const Version& newest);
  [[nodiscard]] static std::uint64_t copy_of(const KeyVersions& history) {
    return history.cell.offset + sizeof(CellHead);
  }
  [[nodiscard]] LocalWord<ControlWord> mark_of(std::uint64_t record) const {
    return region_.word<ControlWord>(record + offsetof(RecordHead, mark));
  }
  bool give_slot(KeyVersions& history);
  /// Of a history that has all slots.
  [[nodiscard]] static Timestamp* least_needed(KeyVersions& history);
  [[nodiscard]] static bool shares_place(const KeyVersions& history, const Version& version);

  const Region& region_;
  Channel& channel_;
  const KvRules& rules_;
  Heap& heap_;
  Index& index_;
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
