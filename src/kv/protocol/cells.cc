#include "kv/protocol/cells.h"

#include <array>
#include <functional>
#include <iterator>
#include <utility>

namespace farside::kv {

namespace {

template <class Layout>
std::span<const std::byte> bytes_of(const Layout& layout) {
  return std::as_bytes(std::span(&layout, 1));
}

FoundVersion found_as(const Version& version) { return {version.timestamp, version.generation, version.place}; }

CellSlot slot_of(const Version& version) { return {version.timestamp, version.generation, version.place.word()}; }

}  // namespace

// Of the thousands of a key that is written all the time the latest are asked for, or the oldest: the way to others is
// through memory that no cache has.
std::deque<Version>::const_iterator KeyVersions::place_of(const Timestamp& timestamp) const {
  constexpr int kLatest = 4;
  auto place = versions.end();
  for (int looks = 0; looks < kLatest; ++looks) {
    if (place == versions.begin() || std::prev(place)->timestamp < timestamp) return place;
    if ((--place)->timestamp == timestamp) return place;
  }
  if (versions.front().timestamp >= timestamp) return versions.begin();
  return std::ranges::lower_bound(versions.begin(), place, timestamp, {}, &Version::timestamp);
}

const Version* KeyVersions::find(const Timestamp& timestamp) const {
  const auto place = place_of(timestamp);
  return place == versions.end() || place->timestamp != timestamp ? nullptr : &*place;
}

Version& KeyVersions::put(const Version& version) {
  if (Version* const there = find(version.timestamp)) return *there = version;
  return *versions.insert(place_of(version.timestamp), version);
}

Version* KeyVersions::newest() {
  const auto newest = std::find_if(versions.rbegin(), versions.rend(), std::mem_fn(&Version::committed));
  return newest == versions.rend() ? nullptr : &*newest;
}

Timestamp KeyVersions::last_conditional() const {
  for (auto version = versions.rbegin(); version != versions.rend() && !version->committed(); ++version) {
    if (version->conditional) return version->timestamp;
  }
  return {};
}

std::optional<FoundVersion> Cells::newest(const IndexWord& cell) const {
  std::optional<FoundVersion> newest;
  for_each_slot(cell, [&newest](const FoundVersion& version, std::size_t /*slot*/) {
    if (version.place.state != VersionState::committed) return;
    if (!newest || newest->timestamp < version.timestamp) newest = version;
  });
  return newest;
}

std::optional<FoundVersion> Cells::at(const KeyId& key, const IndexWord& cell, const Timestamp& timestamp) const {
  if (const auto noted = noted_keys_.find(key); noted != noted_keys_.end()) {
    const Version* version = noted->second.find(timestamp);
    return version == nullptr ? std::nullopt : std::optional(found_as(*version));
  }
  std::optional<FoundVersion> found;
  for_each_slot(cell, [&found, &timestamp](const FoundVersion& version, std::size_t /*slot*/) {
    if (version.timestamp == timestamp) found = version;
  });
  return found;
}

// Of versions and candidates there may be thousands: the fewer are looked for among the others.
std::optional<FoundVersion> Cells::among(const KeyId& key, const IndexWord& cell,
                                         std::span<const Timestamp> candidates) const {
  std::optional<FoundVersion> highest;
  const auto noted = noted_keys_.find(key);
  if (noted == noted_keys_.end()) {
    for_each_slot(cell, [&](const FoundVersion& version, std::size_t /*slot*/) {
      if (highest && version.timestamp < highest->timestamp) return;
      if (std::ranges::binary_search(candidates, version.timestamp)) highest = version;
    });
    return highest;
  }
  const KeyVersions& history = noted->second;
  if (history.versions.size() < candidates.size()) {
    for (auto version = history.versions.rbegin(); version != history.versions.rend() && !highest; ++version) {
      if (std::ranges::binary_search(candidates, version->timestamp)) highest = found_as(*version);
    }
  } else {
    for (auto candidate = candidates.rbegin(); candidate != candidates.rend() && !highest; ++candidate) {
      if (const Version* version = history.find(*candidate)) highest = found_as(*version);
    }
  }
  return highest;
}

std::uint64_t Cells::cell_bytes(std::uint64_t record_bytes) {
  const std::uint64_t bytes = sizeof(CellHead) + (record_bytes <= kMostCopyBytes ? record_bytes : 0);
  return (bytes + IndexWord::kGrain - 1) / IndexWord::kGrain * IndexWord::kGrain;
}

KeyVersions& Cells::create(const KeyId& key, const IndexWord& cell, std::uint64_t generation) {
  CellHead head{key, generation, 0, {}};
  head.seal = head.seal_of();
  region_.copy_in(cell.offset, bytes_of(head));
  return noted_keys_.try_emplace(key, KeyVersions{key, cell, {}, {}}).first->second;
}

KeyVersions& Cells::open(const KeyId& key, const IndexWord& cell) {
  if (KeyVersions* const noted = opened(key)) return *noted;
  KeyVersions& history = noted_keys_.try_emplace(key, KeyVersions{key, cell, {}, {}}).first->second;
  for_each_slot(cell, [this, &history](const FoundVersion& version, std::size_t slot) {
    const std::uint64_t mark = mark_bits(mark_of(version.place.offset).load());
    history.put({version.timestamp, version.generation, version.place, false, false, mark});
    history.slots.at(slot) = version.timestamp;
  });
  noted_ += history.versions.size();
  return history;
}

KeyVersions* Cells::opened(const KeyId& key) {
  const auto found = noted_keys_.find(key);
  return found == noted_keys_.end() ? nullptr : &found->second;
}

void Cells::close(const KeyVersions& history) {
  if (!history.is_quiet()) return;
  noted_ -= history.versions.size();
  noted_keys_.erase(KeyId(history.key));
}

void Cells::remove(const KeyVersions& history) {
  const auto [key, cell] = std::pair(history.key, history.cell);
  index_.remove(key, cell);
  // Whoever remembers where it was is not to find anything.
  region_.copy_in(cell.offset, bytes_of(CellHead{}));
  heap_.give_back(cell.offset, cell.bytes);
  noted_keys_.erase(key);
}

void Cells::add(KeyVersions& history, const Version& version, std::span<const std::byte> record) {
  region_.copy_in(version.place.offset, record);
  Version& added = history.put(version);
  ++noted_;
  if (rules_.marks_all_versions) set_mark(history, added, RecordHead::kNotNewest);
}

Version* Cells::commit(KeyVersions& history, const Timestamp& timestamp) {
  if (!rules_.orders_by_timestamp) {
    while (history.newest() != nullptr && history.newest()->timestamp > timestamp) {
      drop(history, history.newest()->timestamp);
    }
  }
  if (history.is_there()) --keys_;
  Version* before = history.newest();
  if (before != nullptr) before->due = Version::kNotDue;  // superseded, it counts from now
  Version& version = *history.find(timestamp);
  version.place.state = VersionState::committed;
  if (history.is_there()) ++keys_;
  const auto* const slot = std::ranges::find(history.slots, timestamp);
  if (slot != history.slots.end()) store_slot(history, static_cast<std::size_t>(slot - history.slots.begin()), version);
  show(history);
  if (fits(history, version) && history.newest() == &version) copy(history, version);
  return before;
}

void Cells::expire(KeyVersions& history) {
  if (history.is_there()) --keys_;
  history.newest()->erased = true;
}

void Cells::drop(KeyVersions& history, Timestamp timestamp) {
  if (history.is_there()) --keys_;
  Version& version = *history.find_old(timestamp);
  set_mark(history, version, RecordHead::kNotNewest);  // for whoever remembers where it was
  if (rules_.records_are_immutable || !shares_place(history, version)) {
    heap_.give_back(version.place.offset, version.place.bytes);
  }
  if (&version == &history.versions.front()) {
    history.versions.pop_front();
  } else {
    history.versions.erase(history.place_of(timestamp));
  }
  --noted_;
  if (history.is_there()) ++keys_;
  auto* const slot = std::ranges::find(history.slots, timestamp);
  if (slot == history.slots.end()) return;
  *slot = {};
  // An empty slot says that there is no version elsewhere.
  if (history.versions.size() < CellHead::kSlots) {
    store_slot(history, static_cast<std::size_t>(slot - history.slots.begin()), {});
  } else {
    show(history);
  }
}

void Cells::mark_newest(KeyVersions& history) {
  Version* newest = history.newest();
  if (newest == nullptr) return;
  const bool is_last = newest == &history.versions.back();
  set_mark(history, *newest, (newest->mark & ~RecordHead::kNotNewest) | (is_last ? 0 : RecordHead::kNotNewest));
}

void Cells::show(KeyVersions& history) {
  while (give_slot(history)) continue;
}

bool Cells::give_slot(KeyVersions& history) {
  const Version* newest = history.newest();
  const Version* unseen = newest != nullptr && history.is_unseen(*newest) ? newest : nullptr;
  for (auto last = history.versions.rbegin(); unseen == nullptr && last != history.versions.rend(); ++last) {
    if (history.is_unseen(*last)) unseen = &*last;
  }
  if (unseen == nullptr) return false;

  auto* slot = std::ranges::find(history.slots, Timestamp{});
  if (slot == history.slots.end()) {
    slot = least_needed(history);
    if (unseen != newest && unseen->timestamp < *slot) return false;
  }
  *slot = unseen->timestamp;
  channel_.local_fence();  // its record is there, and the slot that was stored to before
  store_slot(history, static_cast<std::size_t>(slot - history.slots.begin()), *unseen);
  return true;
}

// The one that readers find as the newest committed version stays.
Timestamp* Cells::least_needed(KeyVersions& history) {
  const auto is_found = [&history](const Version& each) { return each.committed() && !history.is_unseen(each); };
  const auto found = std::find_if(history.versions.rbegin(), history.versions.rend(), is_found);
  const auto need = [&](const Timestamp& timestamp) {
    return std::pair(found != history.versions.rend() && timestamp == found->timestamp, timestamp);
  };
  return std::ranges::min_element(history.slots, {}, need);
}

void Cells::store_slot(const KeyVersions& history, std::size_t number, const Version& version) {
  const std::uint64_t at = history.cell.offset;
  CellHead head;
  region_.copy_out(at, std::as_writable_bytes(std::span(&head, 1)));
  head.slots[number] = slot_of(version);
  region_.copy_in(at + offsetof(CellHead, slots) + number * sizeof(CellSlot), bytes_of(head.slots[number]));
  region_.word<ControlWord>(at + offsetof(CellHead, seal)).store(head.seal_of());
}

void Cells::set_mark(KeyVersions& history, Version& version, std::uint64_t mark) {
  if (version.mark == mark) return;
  version.mark = mark;
  const std::uint64_t word = mark_word(version.generation, mark);
  mark_of(version.place.offset).store(word);
  if (fits(history, version) && &version == history.newest()) mark_of(copy_of(history)).store(word);
}

bool Cells::fits(const KeyVersions& history, const Version& version) {
  const std::uint64_t bytes = version.place.bytes;
  return bytes <= kMostCopyBytes && bytes <= history.cell.bytes - sizeof(CellHead);
}

void Cells::copy(const KeyVersions& history, const Version& newest) {
  std::array<std::byte, kMostCopyBytes> record;
  const auto bytes = std::span(record).first(newest.place.bytes);
  region_.copy_out(newest.place.offset, bytes);
  region_.copy_in(copy_of(history), bytes);
}

bool Cells::shares_place(const KeyVersions& history, const Version& version) {
  return std::ranges::any_of(history.versions, [&version](const auto& other) {
    return &other != &version && other.place.offset == version.place.offset;
  });
}

}  // namespace farside::kv
