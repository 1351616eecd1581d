// gather.h — elements by their indices, wherever they are.
//
//   const Array<double, 1> y = gather(x, index);     // y[k] = x[index[k]]
//   scatter(x, index, values);                       // x[index[k]] = values[k]: the last one where indices repeat
//   scatter(x, index, values, std::plus<>());        // x[index[k]] += values[k], in their order
//
// An index is the number of an element when the array is written row by row. Ranks find out by asking which rank has
// which; an Indices is what was found, for programs that use the same indices again and again (a sparse matrix).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "farside/arrays/array.h"

namespace farside::arrays {

/// The elements of an array that each rank has named, any number of them.
class Indices {
 public:
  /// Collective. Throws UsageError at every rank when one of them has an index that there is not: it is named, and its
  /// place counted from `first_place`; nothing has happened. `world` outlives this.
  Indices(World& world, const Layout& layout, std::span<const std::int64_t> indices, std::int64_t first_place = 0);

  /// How many this rank has named.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  // Collective. Throw UsageError for an array that is laid out in another way, ghost cells included, and other numbers
  // of values.

  /// The elements, in the order of the indices.
  template <Element T, std::size_t Dimensions>
  void gather(const Array<T, Dimensions>& from, std::span<T> values) const {
    check(from.layout(), values.size());
    const T* const elements = reinterpret_cast<const T*>(from.block_data());
    const Block arrived = exchange(elements, &Link::given, &Link::wanted);
    for_each_link([&](const Link& link, bool own) {
      const T* const value = reinterpret_cast<const T*>(arrived.data()) + link.wanted.here_at;
      for (std::size_t at = 0; at < link.wanted.picks.size(); ++at) {
        values[link.wanted.picks[at]] = own ? elements[link.given.picks[at]] : value[at];
      }
    });
  }

  /// Element = combine(element, value), for the values of rank 0 first, and in the order of its indices.
  template <Element T, std::size_t Dimensions, class Combine>
  void scatter(Array<T, Dimensions>& into, std::span<const T> values, Combine combine) const {
    check(into.layout(), values.size());
    world_.about_to_change(into.block());
    const Block arrived = exchange(values.data(), &Link::wanted, &Link::given);
    T* const elements = reinterpret_cast<T*>(into.block().data());
    for_each_link([&](const Link& link, bool own) {
      const T* const value = reinterpret_cast<const T*>(arrived.data()) + link.given.here_at;
      for (std::size_t at = 0; at < link.given.picks.size(); ++at) {
        T& element = elements[link.given.picks[at]];
        element = combine(element, own ? values[link.wanted.picks[at]] : value[at]);
      }
    });
  }

 private:
  /// The elements that this rank has for another one, or gets from it: their places here, and on their way.
  struct Side {
    std::vector<std::uint64_t> picks;
    std::uint64_t here_at = 0;   ///< in the memory where it arrives here, in elements
    std::uint64_t there_at = 0;  ///< and at the other rank
  };
  struct Link {
    Side wanted;  ///< this rank's indices that the other has the elements of; picks are places in its list
    Side given;   ///< what the other has named here; picks are elements of this rank's memory
  };

  void check(const Layout& layout, std::uint64_t values) const;
  void refuse_missing(std::span<const std::int64_t> indices, std::int64_t first_place) const;
  /// Exchanges how many elements each rank has named of each other one, and where exchanged elements arrive.
  void agree_on_places();
  /// By place: in the memory of each one's owner.
  void tell_owners(const std::vector<std::uint64_t>& positions);

  template <class Visit>
  void for_each_link(Visit visit) const {
    for (team::Rank rank = 0; rank < links_.size(); ++rank) visit(links_[rank], rank == world_.rank());
  }
  /// Sends the elements that ranks have picked from `source` as `from` to the ranks that have them as `to`.
  template <class T>
  [[nodiscard]] Block exchange(const T* source, Side Link::*from, Side Link::*to) const {
    std::vector<Letter> letters;
    std::vector<team::Rank> senders;
    for (team::Rank rank = 0; rank < links_.size(); ++rank) {
      if (rank == world_.rank()) continue;
      const Side& side = links_[rank].*from;
      if (!side.picks.empty()) {
        std::vector<std::byte> bytes(side.picks.size() * sizeof(T));
        T* value = reinterpret_cast<T*>(bytes.data());
        for (const std::uint64_t pick : side.picks) *value++ = source[pick];
        letters.push_back({rank, side.there_at * sizeof(T), std::move(bytes)});
      }
      if (!(links_[rank].*to).picks.empty()) senders.push_back(rank);
    }
    Block arrived = world_.allocate(room_ * sizeof(T));
    world_.begin_letters(std::move(letters), std::move(senders), arrived).end();
    return arrived;
  }

  World& world_;
  const Layout layout_;
  const std::uint64_t count_;
  std::vector<Link> links_;  ///< by rank
  std::uint64_t room_ = 0;   ///< elements that arrive at the rank that gets most
};

/// Element k of the result is the one of `a` that index[k] names. Errors as of Indices.
template <class T, std::size_t Dimensions>
[[nodiscard]] Array<T, 1> gather(const Array<T, Dimensions>& a, const Array<std::int64_t, 1>& index) {
  const Indices indices(a.world(), a.layout(), index.local(), index.first()[0]);
  Array<T, 1> result(a.world(), index.layout());
  indices.gather(a, result.local());
  return result;
}

/// The element of `a` that index[k] names becomes combine(element, values[k]), for one k after the other.
template <class T, std::size_t Dimensions, class Combine>
void scatter(Array<T, Dimensions>& a, const Array<std::int64_t, 1>& index, const Array<T, 1>& values, Combine combine) {
  if (!index.layout().matches(values.layout())) refuse_different(index.layout(), values.layout());
  const Indices indices(a.world(), a.layout(), index.local(), index.first()[0]);
  indices.scatter(a, values.local(), combine);
}
template <class T, std::size_t Dimensions>
void scatter(Array<T, Dimensions>& a, const Array<std::int64_t, 1>& index, const Array<T, 1>& values) {
  scatter(a, index, values, [](T /*before*/, T value) { return value; });
}

}  // namespace farside::arrays
