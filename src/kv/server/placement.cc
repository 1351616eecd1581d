#include "kv/server/placement.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "kv/protocol/record.h"

namespace farside::kv {

namespace {

/// Among several writes of one key the last stays.
void drop_repeated(std::vector<PlacedWrite>& writes) {
  if (writes.size() == 1) return;
  std::vector<std::pair<KeyId, const Write*>> keys;
  keys.reserve(writes.size());
  for (const PlacedWrite& write : writes) keys.emplace_back(write.key, write.write);
  std::ranges::sort(keys);
  const auto is_last = [&keys](const PlacedWrite& write) {
    const auto next = std::ranges::upper_bound(keys, std::pair(write.key, write.write));
    return next == keys.end() || next->first != write.key;
  };
  const auto is_same_key = [](const auto& left, const auto& right) { return left.first == right.first; };
  if (std::ranges::adjacent_find(keys, is_same_key) == keys.end()) return;
  std::erase_if(writes, [&](const PlacedWrite& write) { return !is_last(write); });
}

}  // namespace

void Placement::look(const Prepare& part, std::vector<PlacedWrite>& writes) {
  writes.clear();
  writes.reserve(part.writes.size());
  for (const Write& write : part.writes) {
    writes.push_back({.write = &write,
                      .key = key_id(write.key),
                      .record_bytes = record_bytes(part.siblings.bytes.size(), write.key.size(), write.value.size())});
  }
  drop_repeated(writes);
  for (PlacedWrite& write : writes)
    write.noted = cells_.opened(write.key);  // by itself: the misses of all keys overlap
  for (PlacedWrite& write : writes) look(write);
}

void Placement::look(PlacedWrite& write) {
  if (write.noted != nullptr) {
    write.cell = write.noted->cell;
    const Version* const newest = write.noted->newest();
    if (newest != nullptr) write.newest = newest->found();
  } else {
    write.cell = index_.find(write.key);
    if (write.cell) write.newest = cells_.newest(*write.cell);
  }
  write.is_new = !write.cell;
  const bool fits = write.newest && write.newest->place.bytes == write.record_bytes;
  if (!rules_.records_are_immutable) write.overwrites = fits;
}

bool Placement::take(std::vector<PlacedWrite>& writes) {
  const auto new_keys = static_cast<std::uint64_t>(std::ranges::count_if(writes, &PlacedWrite::is_new));
  if (!index_.has_room(new_keys)) return false;
  const bool erases = std::ranges::all_of(writes, [](const PlacedWrite& write) { return write.write->erase; });
  const auto purpose = erases ? Heap::For::making_room : Heap::For::keeping;
  for (auto write = writes.begin(); write != writes.end(); ++write) {
    if (take(*write, purpose)) continue;
    std::for_each(writes.begin(), write, [this](const PlacedWrite& taken) { give_back(taken); });
    return false;
  }
  return true;
}

bool Placement::take(PlacedWrite& write, Heap::For purpose) {
  if (write.overwrites) {
    write.record = write.newest->place.offset;
    return true;
  }
  const auto record = heap_.take(write.record_bytes, purpose);
  if (!record) return false;
  write.record = *record;
  if (!write.is_new) return true;
  const std::uint64_t bytes = Cells::cell_bytes(write.record_bytes);
  const auto cell = heap_.take(bytes, purpose);
  if (!cell) {
    heap_.give_back(write.record, write.record_bytes);
    return false;
  }
  write.cell = IndexWord{IndexWord::tag_of(write.key), bytes, *cell};
  return true;
}

bool Placement::take_at(std::vector<PlacedWrite>& writes, std::span<const TakenPlace> places) {
  const auto new_keys = static_cast<std::uint64_t>(std::ranges::count_if(writes, &PlacedWrite::is_new));
  if (places.size() != writes.size() || !index_.has_room(new_keys)) return false;
  return std::ranges::equal(writes, places,
                            [this](PlacedWrite& write, const TakenPlace& place) { return take_at(write, place); });
}

// A key's cell may have gone here and not there, but never the reverse: then it is made again in its place.
bool Placement::take_at(PlacedWrite& write, const TakenPlace& place) {
  write.overwrites = false;
  write.record = place.record;
  const IndexWord cell = IndexWord::from_word(place.cell);
  if (!write.is_new && write.cell->word() != cell.word()) return false;
  if (!heap_.take_at(place.record, write.record_bytes, place.record_chunk)) return false;
  if (!write.is_new) return true;
  write.cell = cell;
  return cell.tag == IndexWord::tag_of(write.key) && cell.bytes >= sizeof(CellHead) &&
         heap_.take_at(cell.offset, cell.bytes, place.cell_chunk);
}

TakenPlace Placement::place_of(const PlacedWrite& write) const {
  assert_that(write.cell.has_value(), "a write that is placed has a cell");
  return {write.record, heap_.chunk_of(write.record), write.cell->word(), heap_.chunk_of(write.cell->offset)};
}

void Placement::give_back(const PlacedWrite& write) {
  if (write.overwrites) return;
  heap_.give_back(write.record, write.record_bytes);
  if (write.is_new) heap_.give_back(write.cell->offset, write.cell->bytes);
}

}  // namespace farside::kv
