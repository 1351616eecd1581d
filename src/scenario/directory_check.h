// directory_check.h — looks, from outside and while nothing is under way, whether the directory tells the truth.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/cell.h"
#include "cache/geometry.h"
#include "sim/world.h"

namespace farside::scenario {

class DirectoryCheck {
 public:
  DirectoryCheck(sim::World& world, const std::vector<std::unique_ptr<cache::Cache>>& caches,
                 const cache::CacheOptions& options)
      : world_(world), caches_(caches), geometry_(options, world.size()) {}

  /// A cell that names no copy of the block: a place without it, a dead node, or a loader that does not load.
  struct Stale {
    std::uint64_t block;
    std::uint32_t group;
    cache::Cell cell;
    [[nodiscard]] std::string text() const;
  };
  /// Returns the stale cells of the first `blocks` blocks, as far as their homes live.
  [[nodiscard]] std::vector<Stale> stale_cells(std::uint64_t blocks) const;
  /// The living nodes that would follow the cell if they wanted the block: those of its group that lack it.
  [[nodiscard]] std::vector<team::Rank> followers(const Stale& stale) const;
  /// Whether some other group's cell leads to the block: then a follower may get by without the stale one.
  [[nodiscard]] bool has_way_around(const Stale& stale) const;

 private:
  /// Every cell that bears `block`'s name.
  void each_cell(std::uint64_t block, const std::function<void(std::uint32_t group, cache::Cell cell)>& visit) const;
  [[nodiscard]] bool holds(cache::Place place, std::uint64_t block) const;
  [[nodiscard]] std::uint64_t word(team::Rank rank, std::uint64_t offset) const;

  sim::World& world_;
  const std::vector<std::unique_ptr<cache::Cache>>& caches_;
  cache::Geometry geometry_;
};

}  // namespace farside::scenario
