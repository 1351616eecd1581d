#include "kv/protocol/cells.h"

#include <array>
#include <tuple>
#include <utility>

namespace farside::kv {

namespace {

template <class Layout>
std::span<const std::byte> bytes_of(const Layout& layout) {
  return std::as_bytes(std::span(&layout, 1));
}

CellSlot slot_of(const Version& version) {
  CellSlot slot{version.timestamp, version.generation, version.place.word(), 0};
  slot.seal = slot.seal_of();
  return slot;
}

}  // namespace

Version* History::find(const Timestamp& timestamp) {
  const auto found = std::ranges::find(versions, timestamp, &Version::timestamp);
  return found == versions.end() ? nullptr : &*found;
}

Version* History::newest() {
  Version* newest = nullptr;
  for (Version& version : versions) {
    if (version.committed() && (newest == nullptr || newest->timestamp < version.timestamp)) newest = &version;
  }
  return newest;
}

std::optional<FoundVersion> Cells::newest(const IndexWord& cell) const {
  std::optional<FoundVersion> newest;
  for_each_slot(cell, [&newest](const FoundVersion& version, std::size_t /*slot*/) {
    if (version.place.state != VersionState::committed) return;
    if (!newest || newest->timestamp < version.timestamp) newest = version;
  });
  return newest;
}

std::uint64_t Cells::cell_bytes(std::uint64_t record_bytes) {
  const std::uint64_t bytes = sizeof(CellHead) + (record_bytes <= kMostCopyBytes ? record_bytes : 0);
  return (bytes + IndexWord::kGrain - 1) / IndexWord::kGrain * IndexWord::kGrain;
}

History& Cells::create(const KeyId& key, const IndexWord& cell, std::uint64_t generation) {
  CellHead head{key, generation, 0, {}};
  head.seal = head.seal_of();
  std::ranges::fill(head.slots, slot_of({}));
  region_.copy_in(cell.offset, bytes_of(head));
  return histories_.try_emplace(key, History{key, cell, {}}).first->second;
}

History& Cells::open(const KeyId& key, const IndexWord& cell) {
  const auto [found, is_new] = histories_.try_emplace(key, History{key, cell, {}});
  History& history = found->second;
  if (!is_new) return history;
  for_each_slot(cell, [this, &history](const FoundVersion& version, std::size_t slot) {
    const std::uint64_t mark = mark_of(version.place.offset).load();
    history.versions.push_back({version.timestamp, version.generation, version.place, false, mark, slot});
  });
  noted_ += history.versions.size();
  return history;
}

History* Cells::opened(const KeyId& key) {
  const auto found = histories_.find(key);
  return found == histories_.end() ? nullptr : &found->second;
}

void Cells::close(const History& history) {
  if (!history.is_quiet()) return;
  noted_ -= history.versions.size();
  histories_.erase(KeyId(history.key));
}

void Cells::remove(const History& history) {
  const auto [key, cell] = std::pair(history.key, history.cell);
  index_.remove(key, cell);
  // Whoever remembers where it was is not to find anything.
  region_.copy_in(cell.offset, bytes_of(CellHead{}));
  heap_.give_back(cell.offset, cell.bytes);
  histories_.erase(key);
}

void Cells::add(History& history, const Version& version, std::span<const std::byte> record) {
  region_.copy_in(version.place.offset, record);
  history.versions.push_back(version);
  ++noted_;
}

void Cells::commit(History& history, const Timestamp& timestamp) {
  if (!rules_.orders_by_timestamp) {
    while (history.newest() != nullptr && history.newest()->timestamp > timestamp) {
      drop(history, history.newest()->timestamp);
    }
  }
  if (Version* superseded = history.newest()) superseded->due = Version::kNotDue;  // it counts from now
  Version& version = *history.find(timestamp);
  version.place.state = VersionState::committed;
  if (version.slot != Version::kNoSlot) store_slot(history, version.slot, version);
  show(history);
  if (history.newest() == &version && fits(history, version)) copy(history, version);
}

void Cells::drop(History& history, const Timestamp& timestamp) {
  Version& version = *history.find(timestamp);
  const std::size_t slot = version.slot;
  set_mark(history, version, RecordHead::kNotNewest);  // for whoever remembers where it was
  if (rules_.records_are_immutable || !shares_place(history, version)) {
    heap_.give_back(version.place.offset, version.place.bytes);
  }
  version = history.versions.back();
  history.versions.pop_back();
  --noted_;
  // An empty slot says that there is no version elsewhere.
  const bool all_have = std::ranges::count(history.versions, Version::kNoSlot, &Version::slot) == 0;
  if (slot != Version::kNoSlot && all_have) store_slot(history, slot, {});
  show(history);
}

void Cells::mark(History& history) {
  const Version* newest = history.newest();
  const auto is_newer = [newest](const Version& version) { return newest->timestamp < version.timestamp; };
  const bool is_last = newest != nullptr && std::ranges::none_of(history.versions, is_newer);
  for (Version& version : history.versions) {
    const std::uint64_t settled = version.mark & RecordHead::kSettled;
    set_mark(history, version, is_last && &version == newest ? settled : settled | RecordHead::kNotNewest);
  }
}

void Cells::mark_newest(History& history) {
  if (Version* newest = history.newest()) set_mark(history, *newest, newest->mark | RecordHead::kNotNewest);
}

void Cells::show(History& history) {
  while (give_slot(history)) continue;
}

bool Cells::give_slot(History& history) {
  const Version* newest = history.newest();
  const auto need = [newest](const Version& version) {
    return std::tuple(&version == newest, !version.committed(), version.timestamp);
  };
  const Version* found = nullptr;  // by readers, as the newest committed: its slot stays
  for (const Version& version : history.versions) {
    if (version.slot == Version::kNoSlot || !version.committed()) continue;
    if (found == nullptr || found->timestamp < version.timestamp) found = &version;
  }
  Version* without = nullptr;  // of those without slot the one that needs it most
  Version* least = nullptr;    // of those whose slot can be had
  std::array<bool, CellHead::kSlots> taken{};
  for (Version& version : history.versions) {
    if (version.slot == Version::kNoSlot) {
      if (without == nullptr || need(*without) < need(version)) without = &version;
    } else {
      taken.at(version.slot) = true;
      if (&version != found && (least == nullptr || need(version) < need(*least))) least = &version;
    }
  }
  if (without == nullptr) return false;
  const auto* free = std::ranges::find(taken, false);
  if (free != taken.end()) {
    without->slot = static_cast<std::size_t>(free - taken.begin());
  } else {
    if (least == nullptr || need(*without) < need(*least)) return false;
    without->slot = std::exchange(least->slot, Version::kNoSlot);
  }
  channel_.local_fence();  // its record is there, and the slot that was stored to before
  store_slot(history, without->slot, *without);
  return true;
}

void Cells::store_slot(const History& history, std::size_t number, const Version& version) {
  const std::uint64_t offset = history.cell.offset + offsetof(CellHead, slots) + number * sizeof(CellSlot);
  region_.copy_in(offset, bytes_of(slot_of(version)));
}

void Cells::set_mark(History& history, Version& version, std::uint64_t mark) {
  if (version.mark == mark) return;
  version.mark = mark;
  mark_of(version.place.offset).store(mark);
  if (&version == history.newest() && fits(history, version)) mark_of(copy_of(history)).store(mark);
}

bool Cells::fits(const History& history, const Version& version) {
  const std::uint64_t bytes = version.place.bytes;
  return bytes <= kMostCopyBytes && bytes <= history.cell.bytes - sizeof(CellHead);
}

void Cells::copy(const History& history, const Version& newest) {
  std::array<std::byte, kMostCopyBytes> record;
  const auto bytes = std::span(record).first(newest.place.bytes);
  region_.copy_out(newest.place.offset, bytes);
  region_.copy_in(copy_of(history), bytes);
}

bool Cells::shares_place(const History& history, const Version& version) {
  return std::ranges::any_of(history.versions, [&version](const Version& other) {
    return &other != &version && other.place.offset == version.place.offset;
  });
}

}  // namespace farside::kv
