// ghost.h — the cells around a block, which hold what the neighbours have there: for stencils.
//
//   Array<double, 2> u(world, {n, n}, {.halo = {1, 1}});
//   auto exchange = begin_exchange(u);        // the neighbours' elements are on their way
//   next.assign(stencil, inner(u));           // what needs none of them
//   exchange.end();
//   for (const Box& part : around(u.own(), inner(u))) next.assign(stencil, part);
//
// assign_overlapped() does all that. Corners are exchanged as well. At the edges of an array that is not periodic the
// ghost cells stay as the program has set them.
#pragma once

#include <utility>
#include <vector>

#include "farside/arrays/array.h"
#include "farside/arrays/wants.h"

namespace farside::arrays {

enum class Edges {
  fixed,     ///< beyond an edge there is what the program has put there
  periodic,  ///< beyond the last element comes the first, on all axes
};

/// Under way. It must be ended, at all ranks alike, and the array outlives it.
template <class T, std::size_t Dimensions>
class [[nodiscard]] Exchange {
 public:
  Exchange(Array<T, Dimensions>& array, Edges edges)
      : array_(array),
        periodic_{edges == Edges::periodic, edges == Edges::periodic, edges == Edges::periodic},
        arrived_(array.world().allocate(ghost_capacity(array.layout(), periodic_) * sizeof(T))),
        transfer_(array.world().begin_transfer(
            array.layout(), array.block(), sizeof(T),
            [&](team::Rank rank) { return ghosts(array.layout(), rank, periodic_); }, arrived_)) {}

  /// From here on the ghost cells have what the neighbours had at their begin.
  void end() {
    transfer_.end();
    const Index first = array_.own().first;
    for (const Want& want : ghosts(array_.layout(), array_.world().rank(), periodic_)) {
      const Box& place = want.frame;
      const T* from = reinterpret_cast<const T*>(arrived_.data()) + want.begin;
      for (std::int64_t i = place.first[0]; i < place.last[0]; ++i) {
        for (std::int64_t j = place.first[1]; j < place.last[1]; ++j, from += place.extent(2)) {
          std::copy_n(from, place.extent(2), array_.row(i - first[0], j - first[1]) + place.first[2] - first[2]);
        }
      }
    }
  }

 private:
  Array<T, Dimensions>& array_;
  Periodic periodic_;
  Block arrived_;  ///< new memory, as for every operation: the last ghost cells may still be in use
  Transfer transfer_;
};

template <class T, std::size_t Dimensions>
Exchange<T, Dimensions> begin_exchange(Array<T, Dimensions>& array, Edges edges = Edges::fixed) {
  return Exchange<T, Dimensions>(array, edges);
}
template <class T, std::size_t Dimensions>
void exchange(Array<T, Dimensions>& array, Edges edges = Edges::fixed) {
  begin_exchange(array, edges).end();
}

/// This rank's elements that have no ghost cell within the halo that an exchange changes: one beyond a fixed edge is
/// none.
template <class T, std::size_t Dimensions>
[[nodiscard]] Box inner(const Array<T, Dimensions>& array, Edges edges = Edges::fixed) {
  Index margin = array.layout().halo();
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    if (edges == Edges::fixed && array.layout().parts()[axis] == 1) margin[axis] = 0;
  }
  return common_part(array.own(), array.own().grown(difference({}, margin)));
}

/// into = expression, which reads `read` and its ghost cells: these arrive while the inner part is computed.
template <class T, std::size_t Dimensions, class U, Operand E>
void assign_overlapped(Array<T, Dimensions>& into, const E& expression, Array<U, Dimensions>& read,
                       Edges edges = Edges::fixed) {
  auto under_way = begin_exchange(read, edges);
  into.assign(expression, inner(read, edges));
  under_way.end();
  for (const Box& part : around(read.own(), inner(read, edges))) into.assign(expression, part);
}

}  // namespace farside::arrays
