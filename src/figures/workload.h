// workload.h — what every node's program reads, piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "farside/fabric/fabric.h"
#include "farside/team/team.h"

namespace farside::figures {

/// Bytes [offset, offset + bytes) of the one file that all read.
struct Extent {
  std::uint64_t offset;
  std::uint64_t bytes;
};

struct Workload {
  std::uint64_t file_bytes;
  /// The program's read number `step`; nothing when it is through.
  std::function<std::optional<Extent>(team::Rank rank, std::uint64_t step, Fabric& fabric)> next;
};

/// Each node reads the file from its start to its end.
[[nodiscard]] Workload sequential(std::uint64_t file_bytes, std::uint64_t read_bytes);

/// Each node reads as many pieces as the file has, each at a place drawn anew.
[[nodiscard]] Workload random(std::uint64_t file_bytes, std::uint64_t read_bytes);

/// As IOR does with one shared file: its blocks are dealt to the ranks in turn, and each reads its own, in order, at
/// most `transfer_bytes` at a time.
[[nodiscard]] Workload strided(std::uint64_t file_bytes, std::uint64_t block_bytes, std::uint64_t transfer_bytes,
                               team::Rank nodes);

}  // namespace farside::figures
