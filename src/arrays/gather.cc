#include "farside/arrays/gather.h"

#include <algorithm>
#include <optional>
#include <string>

namespace farside::arrays {

namespace {

/// The index of element `number`, counted row by row.
Index index_of(const Layout& layout, std::int64_t number) {
  const Index& extents = layout.extents();
  return {number / extents[2] / extents[1], number / extents[2] % extents[1], number % extents[2]};
}

}  // namespace

Indices::Indices(World& world, const Layout& layout, std::span<const std::int64_t> indices, std::int64_t first_place)
    : world_(world), layout_(layout), count_(indices.size()), links_(world.size()) {
  refuse_missing(indices, first_place);
  std::vector<std::uint64_t> positions(indices.size());  // in the memory of each one's owner
  for (std::size_t place = 0; place < indices.size(); ++place) {
    const Index at = index_of(layout, indices[place]);
    const team::Rank owner = layout.owner(at);
    links_[owner].wanted.picks.push_back(place);
    positions[place] = static_cast<std::uint64_t>(layout.stored(owner).position(at));
  }
  agree_on_places();
  tell_owners(positions);
}

void Indices::check(const Layout& layout, std::uint64_t values) const {
  if (layout != layout_) refuse_different(layout_, layout);
  if (values == count_) return;
  throw UsageError({"move elements by their indices", std::to_string(values) + " values",
                    "there are " + std::to_string(count_) + " indices", "give as many values as indices"});
}

void Indices::refuse_missing(std::span<const std::int64_t> indices, std::int64_t first_place) const {
  struct Missing {
    bool is_any;
    std::int64_t index;
    std::int64_t place;
    std::int64_t rank;
  };
  const auto elements = static_cast<std::int64_t>(layout_.all().size());
  const auto found =
      std::ranges::find_if(indices, [elements](std::int64_t index) { return index < 0 || index >= elements; });
  Missing first{};
  if (found != indices.end()) first = {true, *found, first_place + (found - indices.begin()), world_.rank()};
  first = world_.all_reduce(first, [](const Missing& a, const Missing& b) { return a.is_any ? a : b; });
  if (!first.is_any) return;
  throw UsageError(
      {"find an element by its index", std::to_string(first.index), "the array has " + std::to_string(elements),
       "see place " + std::to_string(first.place) + " of the indices, at rank " + std::to_string(first.rank)});
}

void Indices::agree_on_places() {
  const std::uint32_t ranks = world_.size();
  std::vector<std::uint64_t> asked(ranks);
  std::vector<std::uint64_t> given(ranks);
  for (team::Rank rank = 0; rank < ranks; ++rank) asked[rank] = links_[rank].wanted.picks.size();
  world_.all_to_all<std::uint64_t>(asked, given);

  // Each rank tells each other one where its elements go.
  struct Places {
    std::uint64_t wanted;
    std::uint64_t given;
  };
  std::vector<Places> here(ranks);
  std::vector<Places> there(ranks);
  Places next{};
  for (team::Rank rank = 0; rank < ranks; ++rank) {
    here[rank] = next;
    if (rank == world_.rank()) continue;
    next.wanted += asked[rank];
    next.given += given[rank];
  }
  world_.all_to_all<Places>(here, there);
  room_ = world_.all_reduce(std::max(next.wanted, next.given), comm::Max());

  for (team::Rank rank = 0; rank < ranks; ++rank) {
    Link& link = links_[rank];
    link.wanted.here_at = here[rank].wanted;
    link.wanted.there_at = there[rank].given;
    link.given.here_at = here[rank].given;
    link.given.there_at = there[rank].wanted;
    link.given.picks.resize(given[rank]);
  }
}

void Indices::tell_owners(const std::vector<std::uint64_t>& positions) {
  // They go the way that scattered values go.
  const Block arrived = exchange(positions.data(), &Link::wanted, &Link::given);
  for (team::Rank rank = 0; rank < links_.size(); ++rank) {
    Side& named = links_[rank].given;
    const auto* const from = reinterpret_cast<const std::uint64_t*>(arrived.data()) + named.here_at;
    for (std::size_t at = 0; at < named.picks.size(); ++at) {
      named.picks[at] = rank == world_.rank() ? positions[links_[rank].wanted.picks[at]] : from[at];
    }
  }
}

}  // namespace farside::arrays
