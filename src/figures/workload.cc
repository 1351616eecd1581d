#include "figures/workload.h"

#include <algorithm>

namespace farside::figures {

Workload sequential(std::uint64_t file_bytes, std::uint64_t read_bytes) {
  return {file_bytes, [=](team::Rank /*rank*/, std::uint64_t step, Fabric& /*fabric*/) -> std::optional<Extent> {
            const std::uint64_t offset = step * read_bytes;
            if (offset >= file_bytes) return std::nullopt;
            return Extent{offset, read_bytes};
          }};
}

Workload random(std::uint64_t file_bytes, std::uint64_t read_bytes) {
  const std::uint64_t pieces = file_bytes / read_bytes;
  return {file_bytes, [=](team::Rank /*rank*/, std::uint64_t step, Fabric& fabric) -> std::optional<Extent> {
            if (step >= pieces) return std::nullopt;
            return Extent{fabric.random() % pieces * read_bytes, read_bytes};
          }};
}

Workload strided(std::uint64_t file_bytes, std::uint64_t block_bytes, std::uint64_t transfer_bytes, team::Rank nodes) {
  const std::uint64_t transfer = std::min(block_bytes, transfer_bytes);
  const std::uint64_t transfers = block_bytes / transfer;
  return {file_bytes, [=](team::Rank rank, std::uint64_t step, Fabric& /*fabric*/) -> std::optional<Extent> {
            const std::uint64_t block = step / transfers * nodes + rank;
            const std::uint64_t offset = block * block_bytes + step % transfers * transfer;
            if (offset >= file_bytes) return std::nullopt;
            return Extent{offset, transfer};
          }};
}

}  // namespace farside::figures
