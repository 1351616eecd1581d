#include "arrays/route.h"

#include <algorithm>
#include <cstring>

namespace farside::arrays {

namespace {

constexpr std::int64_t kCut = 32 << 10;  // elements that are worth a thread

Index strides_of(const Box& frame) { return {frame.extent(1) * frame.extent(2), frame.extent(2), 1}; }

Index dense(const Index& extents) { return {extents[1] * extents[2], extents[2], 1}; }

template <class T>
void copy_row(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t count) {
  for (std::int64_t at = 0; at < count; ++at) to[at * to_stride] = from[at * from_stride];
}

template <class T>
void copy_as(const Piece& piece, const std::byte* from, std::byte* to, const Threads& threads) {
  const auto* source = reinterpret_cast<const T*>(from) + piece.from;
  auto* destination = reinterpret_cast<T*>(to) + piece.to;
  const std::int64_t cuts = std::max<std::int64_t>(1, piece.extents[2] / kCut);  // of a row
  const auto copy_cuts = [&](std::uint64_t first, std::uint64_t last) {
    for (auto each = static_cast<std::int64_t>(first); each < static_cast<std::int64_t>(last); ++each) {
      const std::int64_t i = each / cuts / piece.extents[1];
      const std::int64_t j = each / cuts % piece.extents[1];
      const std::int64_t begin = each % cuts * piece.extents[2] / cuts;
      const std::int64_t count = (each % cuts + 1) * piece.extents[2] / cuts - begin;
      const T* const row = source + i * piece.from_strides[0] + j * piece.from_strides[1];
      T* const into = destination + i * piece.to_strides[0] + j * piece.to_strides[1];
      if (piece.run() == piece.extents[2]) {
        std::memcpy(into + begin, row + begin, static_cast<std::size_t>(count) * sizeof(T));
      } else {
        copy_row(row + begin * piece.from_strides[2], piece.from_strides[2], into + begin * piece.to_strides[2],
                 piece.to_strides[2], count);
      }
    }
  };
  const auto rows = static_cast<std::uint64_t>(piece.extents[0] * piece.extents[1] * cuts);
  const std::int64_t grain = std::max<std::int64_t>(1, kCut * cuts / std::max<std::int64_t>(1, piece.extents[2]));
  threads.run(rows, static_cast<std::uint64_t>(grain), copy_cuts);
}

}  // namespace

Piece Piece::joined() const {
  Piece joined{{1, 1, 1}, from, {1, 1, 1}, to, {1, 1, 1}};
  std::size_t row = kAxes;  // the outermost axis of `joined` that has been given its rows
  for (std::size_t axis = kAxes; axis-- > 0;) {
    if (extents[axis] == 1) continue;
    const bool follows = row < kAxes && from_strides[axis] == joined.from_strides[row] * joined.extents[row] &&
                         to_strides[axis] == joined.to_strides[row] * joined.extents[row];
    if (follows) {
      joined.extents[row] *= extents[axis];
    } else {
      --row;
      joined.extents[row] = extents[axis];
      joined.from_strides[row] = from_strides[axis];
      joined.to_strides[row] = to_strides[axis];
    }
  }
  return joined;
}

bool Piece::arrives_whole() const {
  const Index whole = dense(extents);
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    if (extents[axis] > 1 && to_strides[axis] != whole[axis]) return false;
  }
  return true;
}

Piece Piece::packed() const { return {extents, from, from_strides, 0, dense(extents)}; }

Piece Piece::unpacked() const { return Piece{extents, 0, dense(extents), to, to_strides}.joined(); }

std::vector<Piece> pieces(const Layout& layout, team::Rank from, const std::vector<Want>& wants_of_to,
                          const Order& order) {
  std::vector<Piece> found;
  const Box own = layout.own(from);
  const Box stored = layout.stored(from);
  for (const Want& want : wants_of_to) {
    const Box common = common_part(own, want.source);
    if (common.empty()) continue;
    Piece piece;
    Index at = want.at;
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      const std::size_t there = order[axis];
      piece.extents[axis] = common.extent(there);
      piece.from_strides[axis] = strides_of(stored)[there];
      at[axis] += common.first[there] - want.source.first[there];
    }
    piece.from = stored.position(common.first);
    piece.to = static_cast<std::int64_t>(want.begin) + want.frame.position(at);
    piece.to_strides = strides_of(want.frame);
    found.push_back(piece.joined());
  }
  return found;
}

void copy_elements(const Piece& piece, std::size_t element_bytes, const std::byte* from, std::byte* to,
                   const Threads& threads) {
  switch (element_bytes) {
    case 1: return copy_as<std::uint8_t>(piece, from, to, threads);
    case 2: return copy_as<std::uint16_t>(piece, from, to, threads);
    case 4: return copy_as<std::uint32_t>(piece, from, to, threads);
    case 8: return copy_as<std::uint64_t>(piece, from, to, threads);
    default: return copy_as<std::array<std::byte, 16>>(piece, from, to, threads);
  }
}

}  // namespace farside::arrays
