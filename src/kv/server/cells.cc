#include "kv/server/cells.h"

#include <array>
#include <utility>

#include "farside/base/rounding.h"

#include "base/assert.h"

namespace farside::kv {

namespace {

template <class Layout>
std::span<const std::byte> bytes_of(const Layout& layout) {
  return std::as_bytes(std::span(&layout, 1));
}

CellSlot slot_of(const Version& version) { return {version.timestamp, version.generation, version.place.word()}; }

}  // namespace

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
    return version == nullptr ? std::nullopt : std::optional(version->found());
  }
  std::optional<FoundVersion> found;
  for_each_slot(cell, [&found, &timestamp](const FoundVersion& version, std::size_t /*slot*/) {
    if (version.timestamp == timestamp) found = version;
  });
  return found;
}

// There may be thousands of versions, and of candidates. Versions below all candidates are not looked at.
std::optional<FoundVersion> Cells::among(const KeyId& key, const IndexWord& cell,
                                         std::span<const Timestamp> candidates) const {
  const auto is_candidate = [candidates](const Timestamp& timestamp) {
    return std::ranges::binary_search(candidates, timestamp);
  };
  std::optional<FoundVersion> highest;
  const auto noted = noted_keys_.find(key);
  if (noted == noted_keys_.end()) {
    for_each_slot(cell, [&](const FoundVersion& version, std::size_t /*slot*/) {
      if (highest && version.timestamp < highest->timestamp) return;
      if (is_candidate(version.timestamp)) highest = version;
    });
    return highest;
  }
  if (candidates.empty()) return std::nullopt;
  const auto& versions = noted->second.versions;
  for (auto version = versions.rbegin(); version != versions.rend() && !highest; ++version) {
    if (version->timestamp < candidates.front()) break;
    if (is_candidate(version->timestamp)) highest = version->found();
  }
  return highest;
}

std::uint64_t Cells::cell_bytes(std::uint64_t record_bytes) {
  const std::uint64_t bytes = sizeof(CellHead) + (record_bytes <= kMaxCopyBytes ? record_bytes : 0);
  return round_up(bytes, IndexWord::kGrain);
}

KeyVersions& Cells::create(const KeyId& key, const IndexWord& cell, std::uint64_t generation) {
  CellHead head{key, generation, 0, {}};
  head.seal = head.seal_of();
  region_.copy_in(cell.offset, bytes_of(head));
  const auto [noted, is_new] = noted_keys_.try_emplace(key, KeyVersions{key, cell});
  assert_that(is_new, "nothing is noted of a key that has no cell");
  return noted->second;
}

KeyVersions& Cells::open(const KeyId& key, const IndexWord& cell) {
  if (KeyVersions* const noted = opened(key)) return *noted;
  KeyVersions& history = noted_keys_.try_emplace(key, KeyVersions{key, cell}).first->second;
  for_each_slot(cell, [this, &history](const FoundVersion& version, std::size_t slot) {
    const std::uint64_t mark = mark_bits(mark_of(version.place.offset).load());
    places_.put(history, {version.timestamp, version.generation, version.place, false, false, mark});
    history.slots.at(slot) = version.timestamp;
  });
  noted_ += history.versions.size();
  return history;
}

KeyVersions* Cells::opened(const KeyId& key) {
  const auto found = noted_keys_.find(key);
  return found == noted_keys_.end() ? nullptr : &found->second;
}

void Cells::close(KeyVersions& history) {
  if (!history.is_quiet()) return;
  noted_ -= history.versions.size();
  places_.drop_all(history);
  noted_keys_.erase(KeyId(history.key));
}

void Cells::remove(const KeyVersions& history) {
  assert_that(history.versions.empty(), "a key that is removed has no versions");
  const auto [key, cell] = std::pair(history.key, history.cell);
  index_.remove(key, cell);
  // A client that remembers where it was must not find anything.
  region_.copy_in(cell.offset, bytes_of(CellHead{}));
  heap_.give_back(cell.offset, cell.bytes);
  noted_keys_.erase(key);
}

Version& Cells::add(KeyVersions& history, const Version& version, std::span<const std::byte> record) {
  assert_that(record.size() == version.place.bytes, "a record fills its place");
  region_.copy_in(version.place.offset, record);
  Version& added = places_.put(history, version);
  ++noted_;
  if (rules_.marks_all_versions) set_mark(added, RecordHead::kNotNewest);
  return added;
}

Version* Cells::commit(Version& version) {
  assert_that(version.place.state == VersionState::prepared, "a version is committed once, after it was prepared");
  KeyVersions& history = *version.key;
  if (!rules_.orders_by_timestamp) {
    while (history.newest() != nullptr && history.newest()->timestamp > version.timestamp) drop(*history.newest());
  }
  if (history.is_there()) --keys_;
  Version* before = history.newest();
  if (before != nullptr) before->due = Version::kNotDue;  // superseded, it counts from now
  // All that are above the newest committed have slots beside it, unless they are more: then one that has none may take
  // that of the newest before.
  const bool are_many = history.prepared >= CellHead::kSlots;
  history.discount(version);
  version.place.state = VersionState::committed;
  history.count(version);
  if (history.is_there()) ++keys_;
  const auto* const slot = std::ranges::find(history.slots, version.timestamp);
  if (slot != history.slots.end()) store_slot(history, static_cast<std::size_t>(slot - history.slots.begin()), version);
  show(version);
  if (are_many) give_slots(history);
  if (fits(history, version) && history.newest() == &version) copy(history, version);
  return before;
}

void Cells::expire(KeyVersions& history) {
  assert_that(history.newest() != nullptr, "a key that expires has a committed version");
  if (history.is_there()) --keys_;
  history.newest()->erased = true;
}

void Cells::drop(Version& version) {
  KeyVersions& history = *version.key;
  if (history.is_there()) --keys_;
  set_mark(version, RecordHead::kNotNewest);  // for clients that remember where it was
  if (rules_.records_are_immutable || !shares_place(history, version)) {
    heap_.give_back(version.place.offset, version.place.bytes);
  }
  const Timestamp timestamp = version.timestamp;
  places_.drop(version);
  --noted_;
  if (history.is_there()) ++keys_;
  auto* const slot = std::ranges::find(history.slots, timestamp);
  if (slot == history.slots.end()) return;
  *slot = {};
  // An empty slot says that there is no version elsewhere.
  if (history.versions.size() < CellHead::kSlots) {
    store_slot(history, static_cast<std::size_t>(slot - history.slots.begin()), {});
  } else {
    give_slots(history);
  }
}

void Cells::mark_newest(KeyVersions& history) {
  Version* newest = history.newest();
  if (newest == nullptr) return;
  const bool is_last = newest == &history.versions.back();
  set_mark(*newest, (newest->mark & ~RecordHead::kNotNewest) | (is_last ? 0 : RecordHead::kNotNewest));
}

void Cells::show(Version& version) {
  if (version.key->is_unseen(version)) (void)give_slot(*version.key, version);
}

void Cells::give_slots(KeyVersions& history) {
  const auto is_unseen = [&history](const Version& each) { return history.is_unseen(each); };
  for (bool is_given = true; is_given;) {
    const auto last = std::find_if(history.versions.rbegin(), history.versions.rend(), is_unseen);
    if (last == history.versions.rend()) return;
    const Version* const newest = history.newest();
    is_given = give_slot(history, newest != nullptr && is_unseen(*newest) ? *newest : *last);
  }
}

bool Cells::give_slot(KeyVersions& history, const Version& unseen) {
  auto* slot = std::ranges::find(history.slots, Timestamp{});
  if (slot == history.slots.end()) {
    slot = least_needed(history);
    if (&unseen != history.newest() && unseen.timestamp < *slot) return false;
  }
  *slot = unseen.timestamp;
  store_slot(history, static_cast<std::size_t>(slot - history.slots.begin()), unseen);
  return true;
}

// The one that readers find as the newest committed version stays.
Timestamp* Cells::least_needed(KeyVersions& history) {
  const Version* found = history.newest();
  if (found != nullptr && history.is_unseen(*found)) {
    const auto is_found = [&history](const Version& each) { return each.committed() && !history.is_unseen(each); };
    const auto before = std::find_if(history.versions.rbegin(), history.versions.rend(), is_found);
    found = before == history.versions.rend() ? nullptr : &*before;
  }
  const auto need = [found](const Timestamp& timestamp) {
    return std::pair(found != nullptr && timestamp == found->timestamp, timestamp);
  };
  return std::ranges::min_element(history.slots, {}, need);
}

void Cells::store_slot(const KeyVersions& history, std::size_t number, const Version& version) {
  assert_that(number < CellHead::kSlots, "only slots of the cell are stored to");
  const std::uint64_t at = history.cell.offset + offsetof(CellHead, slots) + number * sizeof(CellSlot);
  const auto seal = region_.word<ControlWord>(history.cell.offset + offsetof(CellHead, seal));
  CellSlot before;
  region_.copy_out(at, std::as_writable_bytes(std::span(&before, 1)));
  const CellSlot now = slot_of(version);
  region_.copy_in(at, bytes_of(now));
  seal.store(seal.load() - CellHead::seal_of(number, before) + CellHead::seal_of(number, now));
}

void Cells::set_mark(Version& version, std::uint64_t mark) {
  if (version.mark == mark) return;
  const KeyVersions& history = *version.key;
  version.mark = mark;
  const std::uint64_t word = mark_word(version.generation, mark);
  mark_of(version.place.offset).store(word);
  if (fits(history, version) && &version == history.newest()) mark_of(copy_of(history)).store(word);
}

bool Cells::fits(const KeyVersions& history, const Version& version) {
  const std::uint64_t bytes = version.place.bytes;
  return bytes <= kMaxCopyBytes && bytes <= history.cell.bytes - sizeof(CellHead);
}

void Cells::copy(const KeyVersions& history, const Version& newest) {
  std::array<std::byte, kMaxCopyBytes> record;
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
