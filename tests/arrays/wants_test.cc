// What ranks want of each other and where it lies: carried out here in one process, on all small shapes.
#include "farside/arrays/wants.h"

#include <cstring>

#include <gtest/gtest.h>

#include "arrays/route.h"

namespace farside::test {
namespace {

using arrays::Box;
using arrays::Index;
using arrays::kAxes;
using arrays::Layout;
using arrays::Piece;
using arrays::Want;

constexpr std::int64_t kNone = -1;

using Memory = std::vector<std::int64_t>;  // of one rank

/// Each element is its number; ghost cells have none.
Memory numbered(const Layout& layout, team::Rank rank) {
  Memory memory(layout.capacity(), kNone);
  const Box own = layout.own(rank);
  for (std::int64_t i = own.first[0]; i < own.last[0]; ++i) {
    for (std::int64_t j = own.first[1]; j < own.last[1]; ++j) {
      for (std::int64_t k = own.first[2]; k < own.last[2]; ++k) {
        memory[static_cast<std::size_t>(layout.stored(rank).position({i, j, k}))] = layout.all().position({i, j, k});
      }
    }
  }
  return memory;
}

/// What arrives at a rank with these `wants`: nothing twice.
Memory arrived(const Layout& layout, const std::vector<Want>& wants, std::uint64_t capacity,
               const arrays::Order& order = arrays::kSameOrder) {
  const arrays::Threads threads(1);
  Memory memory(capacity, kNone);
  for (team::Rank from = 0; from < layout.ranks(); ++from) {
    const Memory source = numbered(layout, from);
    for (const Piece& piece : pieces(layout, from, wants, order)) {
      Memory once(capacity, kNone);
      Memory packed(piece.size());
      const auto bytes = [](auto& elements) { return reinterpret_cast<std::byte*>(elements.data()); };
      copy_elements(piece, 8, reinterpret_cast<const std::byte*>(source.data()), bytes(once), threads);
      Memory by_buffer(capacity, kNone);
      copy_elements(piece.packed(), 8, reinterpret_cast<const std::byte*>(source.data()), bytes(packed), threads);
      copy_elements(piece.unpacked(), 8, bytes(packed), bytes(by_buffer), threads);
      EXPECT_EQ(once, by_buffer);
      for (std::size_t at = 0; at < capacity; ++at) {
        if (once[at] == kNone) continue;
        EXPECT_EQ(memory[at], kNone);
        memory[at] = once[at];
      }
    }
  }
  return memory;
}

/// Calls `visit` with layouts of three ranks or six, of all small shapes in steps.
template <class Visit>
void for_each_layout(Visit visit) {
  for (const Index& parts : {Index{1, 1, 3}, Index{1, 3, 1}, Index{1, 2, 3}, Index{3, 1, 2}}) {
    for (const std::int64_t x : {1, 2}) {
      for (const std::int64_t y : {0, 1, 4}) {
        for (const std::int64_t z : {0, 1, 2, 5}) {
          const auto ranks = static_cast<std::uint32_t>(parts[0] * parts[1] * parts[2]);
          visit(Layout({x, y, z}, parts, {0, 1, 2}, ranks));
        }
      }
    }
  }
}

std::int64_t wrapped(std::int64_t index, std::int64_t extent) { return (index % extent + extent) % extent; }

// A shift brings each element from where it was, wrapped or not, however far.
TEST(Wants, ShiftEachElement) {
  for_each_layout([](const Layout& layout) {
    for (const std::int64_t shift : {-7, -1, 0, 2, 5}) {
      for (std::size_t axis = 0; axis < kAxes; ++axis) {
        for (const bool periodic : {true, false}) {
          const arrays::Wants wants = shifted(layout, axis, shift, periodic);
          for (team::Rank rank = 0; rank < layout.ranks(); ++rank) {
            const Memory memory = arrived(layout, wants(rank), layout.capacity());
            const Box own = layout.own(rank);
            for (std::int64_t i = own.first[0]; i < own.last[0]; ++i) {
              for (std::int64_t j = own.first[1]; j < own.last[1]; ++j) {
                for (std::int64_t k = own.first[2]; k < own.last[2]; ++k) {
                  Index from = {i, j, k};
                  from[axis] += shift;
                  const std::int64_t extent = layout.extents()[axis];
                  const bool beyond = from[axis] < 0 || from[axis] >= extent;
                  from[axis] = wrapped(from[axis], extent);
                  const std::int64_t expected = beyond && !periodic ? kNone : layout.all().position(from);
                  const auto at = static_cast<std::size_t>(layout.stored(rank).position({i, j, k}));
                  ASSERT_EQ(memory[at], expected) << layout.text() << " axis " << axis << " by " << shift;
                }
              }
            }
          }
        }
      }
    }
  });
}

// Axes in any order, into any other distribution.
TEST(Wants, ReorderEachElement) {
  const arrays::Order orders[] = {{0, 1, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for_each_layout([&](const Layout& layout) {
    for (const arrays::Order& order : orders) {
      Index extents;
      for (std::size_t axis = 0; axis < kAxes; ++axis) extents[axis] = layout.extents()[order[axis]];
      const Layout result(extents, layout.parts(), {1, 0, 1}, layout.ranks());
      for (team::Rank rank = 0; rank < layout.ranks(); ++rank) {
        const Memory memory = arrived(layout, reordered(result, order)(rank), result.capacity(), order);
        const Box own = result.own(rank);
        for (std::int64_t i = own.first[0]; i < own.last[0]; ++i) {
          for (std::int64_t j = own.first[1]; j < own.last[1]; ++j) {
            for (std::int64_t k = own.first[2]; k < own.last[2]; ++k) {
              const Index at = {i, j, k};
              Index from;
              for (std::size_t axis = 0; axis < kAxes; ++axis) from[order[axis]] = at[axis];
              ASSERT_EQ(memory[static_cast<std::size_t>(result.stored(rank).position(at))],
                        layout.all().position(from));
            }
          }
        }
      }
    }
  });
}

// Ghost cells come one after the other into the memory that there is for them, each for another place around the block.
TEST(Wants, SurroundEachBlock) {
  for_each_layout([](const Layout& layout) {
    for (const arrays::Periodic& periodic : {arrays::Periodic{}, arrays::Periodic{true, true, true}}) {
      const std::uint64_t capacity = ghost_capacity(layout, periodic);
      for (team::Rank rank = 0; rank < layout.ranks(); ++rank) {
        const std::vector<Want> wants = ghosts(layout, rank, periodic);
        const Memory memory = arrived(layout, wants, capacity);
        std::uint64_t cells = 0;
        for (const Want& want : wants) {
          for (std::uint64_t at = 0; at < want.source.size(); ++at, ++cells) ASSERT_NE(memory[want.begin + at], kNone);
          ASSERT_EQ(common_part(want.frame, layout.own(rank)).size(), 0u);
        }
        const std::uint64_t all = layout.own(rank).empty() ? 0 : layout.stored(rank).size() - layout.own(rank).size();
        ASSERT_LE(cells, all);
        ASSERT_TRUE(cells == all || !periodic[0]);
      }
    }
  });
}

// What lies together at both ends is moved in one row.
TEST(Wants, JoinRows) {
  const Piece whole = Piece{{4, 5, 6}, 0, {30, 6, 1}, 100, {30, 6, 1}}.joined();
  EXPECT_EQ(whole.run(), 120);
  EXPECT_TRUE(whole.arrives_whole());
  const Piece planes = Piece{{4, 5, 6}, 0, {60, 6, 1}, 0, {30, 6, 1}}.joined();
  EXPECT_EQ(planes.run(), 30);
  EXPECT_TRUE(planes.arrives_whole());
  const Piece column = Piece{{1, 5, 1}, 3, {60, 6, 1}, 0, {30, 6, 1}}.joined();
  EXPECT_EQ(column.run(), 1);
  EXPECT_FALSE(column.arrives_whole());
}

}  // namespace
}  // namespace farside::test
