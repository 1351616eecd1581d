// parts.h — transfers that are not in one piece: every so many bytes, or wherever an index says.
//
//   comm.get(channel, strided({.region = &column_owner, .offset = 8 * column, .stride_bytes = 8 * columns},
//                             {.data = values.data(), .stride_bytes = 8}, 8, rows));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "farside/comm/comm.h"

namespace farside {

struct RemoteStride {
  const RemoteRegion* region;
  std::uint64_t offset;
  std::uint64_t stride_bytes;
};
struct LocalStride {
  void* data;
  std::uint64_t stride_bytes;
};

/// `count` parts of `part_bytes`. Throws Error when one is out of range.
[[nodiscard]] inline std::vector<Part> strided(RemoteStride remote, LocalStride local, std::uint64_t part_bytes,
                                               std::uint64_t count) {
  std::vector<Part> parts;
  parts.reserve(count);
  for (std::uint64_t at = 0; at < count; ++at) {
    parts.push_back({remote.region->span(remote.offset + at * remote.stride_bytes, part_bytes),
                     LocalSpan(static_cast<std::byte*>(local.data) + at * local.stride_bytes, part_bytes)});
  }
  return parts;
}

/// Of an array of T at `offset`: the elements with these indices, in the order of `local`, which is as long. Throws
/// Error when one is out of range.
template <PlainValue T>
[[nodiscard]] std::vector<Part> indexed(const RemoteRegion& region, std::uint64_t offset,
                                        std::span<const std::uint64_t> indices, std::span<T> local) {
  std::vector<Part> parts;
  parts.reserve(indices.size());
  for (std::size_t at = 0; at < indices.size(); ++at) {
    parts.push_back({region.span(offset + indices[at] * sizeof(T), sizeof(T)), LocalSpan(local[at])});
  }
  return parts;
}

}  // namespace farside
