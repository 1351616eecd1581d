#include "kv/protocol/placement.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "kv/protocol/record.h"

namespace farside::kv {

std::vector<PlacedWrite> Placement::look(const Prepare& part) const {
  std::vector<PlacedWrite> writes;
  writes.reserve(part.writes.size());
  for (const Write& write : part.writes) {
    writes.push_back({.write = &write,
                      .key = key_id(write.key),
                      .record_bytes = record_bytes(part.siblings.bytes.size(), write.key.size(), write.value.size())});
  }
  // The later of two of one key comes first, and stays.
  std::ranges::sort(writes, std::greater(), [](const PlacedWrite& write) { return std::pair(write.key, write.write); });
  const auto is_same_key = [](const PlacedWrite& left, const PlacedWrite& right) { return left.key == right.key; };
  writes.erase(std::unique(writes.begin(), writes.end(), is_same_key), writes.end());

  for (PlacedWrite& write : writes) {
    write.cell = index_.find(write.key);
    if (!write.cell) {
      write.is_new = true;
      continue;
    }
    write.newest = cells_.newest(*write.cell);
    const bool fits = write.newest && write.newest->place.bytes == write.record_bytes;
    if (!rules_.records_are_immutable) write.overwrites = fits;
  }
  return writes;
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

void Placement::give_back(const PlacedWrite& write) {
  if (write.overwrites) return;
  heap_.give_back(write.record, write.record_bytes);
  if (write.is_new) heap_.give_back(write.cell->offset, write.cell->bytes);
}

}  // namespace farside::kv
