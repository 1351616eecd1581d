// parts.h — transfers that are not in one piece: every so many bytes, or wherever an index says.
//
//   comm.get(channel, strided({.region = &column_owner, .offset = 8 * column, .stride_bytes = 8 * columns},
//                             {.data = values.data(), .stride_bytes = 8}, 8, rows));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "farside/base/error.h"
#include "farside/comm/comm.h"
#include "farside/comm/sendable.h"

namespace farside::comm {

struct RemoteStride {
  const RemoteRegion* region;
  std::uint64_t offset;
  std::uint64_t stride_bytes;
};
struct LocalStride {
  void* data;
  std::uint64_t stride_bytes;
};

/// `count` parts of `part_bytes`. Throws Error when one is out of range in the region; the local side has room for the
/// last one, which is not known here.
[[nodiscard]] inline std::vector<Part> strided(RemoteStride remote, LocalStride local, std::uint64_t part_bytes,
                                               std::uint64_t count) {
  std::vector<Part> parts;
  if (count == 0) return parts;
  // The last one first: it may be so far off that its place cannot be counted.
  const std::uint64_t steps = count - 1;
  (void)remote.region->span(remote.offset, part_bytes);
  if (steps != 0 && remote.stride_bytes > remote.region->bytes() / steps) {
    throw UsageError({"make parts of region", remote.region->name(),
                      std::to_string(count) + " strides of " + std::to_string(remote.stride_bytes) + " bytes",
                      "it has " + std::to_string(remote.region->bytes()) + " bytes"});
  }
  (void)remote.region->span(remote.offset + steps * remote.stride_bytes, part_bytes);
  parts.reserve(count);
  for (std::uint64_t at = 0; at < count; ++at) {
    parts.push_back({remote.region->span(remote.offset + at * remote.stride_bytes, part_bytes),
                     LocalSpan(static_cast<std::byte*>(local.data) + at * local.stride_bytes, part_bytes)});
  }
  return parts;
}

/// Returns the elements with these indices of an array of T at `offset`, in the order of `local`, which must be as
/// long. Throws UsageError when it is not, Error when an element is out of range.
template <Sendable T>
[[nodiscard]] std::vector<Part> indexed(const RemoteRegion& region, std::uint64_t offset,
                                        std::span<const std::uint64_t> indices, std::span<T> local) {
  if (indices.size() != local.size()) {
    throw UsageError({"make parts of region", region.name(), std::to_string(indices.size()) + " indices",
                      "there are " + std::to_string(local.size()) + " elements for them"});
  }
  const std::uint64_t elements = region.span(offset, 0).region->bytes() / sizeof(T);  // so that no place is cut short
  std::vector<Part> parts;
  parts.reserve(indices.size());
  for (std::size_t at = 0; at < indices.size(); ++at) {
    if (indices[at] >= elements) {
      throw UsageError({"make parts of region", region.name(), "index " + std::to_string(indices[at]),
                        "it has room for " + std::to_string(elements) + " elements"});
    }
    parts.push_back({region.span(offset + indices[at] * sizeof(T), sizeof(T)), LocalSpan(local[at])});
  }
  return parts;
}

}  // namespace farside::comm
