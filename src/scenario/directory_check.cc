#include "scenario/directory_check.h"

#include "scenario/imaginary_files.h"

namespace farside::scenario {

std::string DirectoryCheck::Stale::text() const {
  return "the cell of group " + std::to_string(group) + " for block " + std::to_string(block) + " says " +
         (cell.state == cache::Cell::State::loading ? "loading" : "loaded") + " at node " + std::to_string(cell.rank) +
         " slot " + std::to_string(cell.slot) + ", and it is not";
}

std::vector<DirectoryCheck::Stale> DirectoryCheck::stale_cells(std::uint64_t blocks) const {
  std::vector<Stale> found;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    each_cell(block, [&](std::uint32_t group, cache::Cell cell) {
      if (cell.state == cache::Cell::State::invalid) return;
      if (cell.state == cache::Cell::State::loaded && holds(cell.place(), block)) return;
      found.push_back({block, group, cell});
    });
  }
  return found;
}

std::vector<team::Rank> DirectoryCheck::followers(const Stale& stale) const {
  std::vector<team::Rank> found;
  for (team::Rank rank = 0; rank < world_.size(); ++rank) {
    if (!world_.alive(rank) || geometry_.group_of(rank) != stale.group) continue;
    bool has_block = false;
    for (std::uint32_t slot = 0; slot < geometry_.layout().slot_count; ++slot) {
      has_block |= holds({rank, slot}, stale.block);
    }
    if (!has_block) found.push_back(rank);
  }
  return found;
}

bool DirectoryCheck::has_way_around(const Stale& stale) const {
  bool found = false;
  each_cell(stale.block, [&](std::uint32_t group, cache::Cell cell) {
    found |= group != stale.group && cell.state == cache::Cell::State::loaded && holds(cell.place(), stale.block);
  });
  return found;
}

void DirectoryCheck::each_cell(std::uint64_t block,
                               const std::function<void(std::uint32_t group, cache::Cell cell)>& visit) const {
  const cache::BlockId id = cache::block_id(key_of(block));
  const auto [home, bucket] = geometry_.bucket_of(id);
  if (!world_.alive(home)) return;
  for (std::uint64_t row = 0; row < cache::Geometry::kBucketRows; ++row) {
    const std::uint64_t offset = bucket + row * geometry_.row_bytes();
    if (word(home, offset) != id) continue;
    for (std::uint32_t group = 0; group < geometry_.groups(); ++group) {
      visit(group, cache::Cell::from_word(word(home, offset + 8 * (1 + std::uint64_t{group}))));
    }
  }
}

bool DirectoryCheck::holds(cache::Place place, std::uint64_t block) const {
  return place.rank < world_.size() && place.slot < geometry_.layout().slot_count && world_.alive(place.rank) &&
         word(place.rank, geometry_.slot_offset(place.slot)) == cache::block_id(key_of(block));
}

std::uint64_t DirectoryCheck::word(team::Rank rank, std::uint64_t offset) const {
  return caches_[rank]->region().word<ControlWord>(offset).load();
}

}  // namespace farside::scenario
