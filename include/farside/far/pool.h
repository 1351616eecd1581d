// pool.h — a program's way to the far memory of a pool (farside up --far SIZE): a space of addresses on its nodes, for
// a heap (heap.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "farside/far/space.h"

namespace farside::far {

/// The consequence of the loss of a node.
enum class Protection : std::uint8_t {
  trust_nodes,  ///< what it had is lost
  mirror,       ///< each slab lies on two nodes, and again on two when one is lost
  spill,        ///< everything is queued for a file as well (PoolOptions::spill), and read there when its node is lost
};

struct PoolOptions {
  std::uint64_t bytes = 0;  ///< of the space
  /// Instead of `bytes`: what the pool has left when it is asked. Others may take of it, before this space does.
  bool all_that_is_left = false;
  /// None: nodes of this machine are trusted, and it is said so; others are not.
  std::optional<Protection> protection{};
  /// With Protection::spill, and only then: a file on this machine, which must not be there yet. It takes as many bytes
  /// as the space at once, has no name from then on, and is gone with the space.
  std::filesystem::path spill{};
  /// The pool's runtime directory; when empty, the one that the command finds (FARSIDE_RUNTIME_DIR, or the user's own).
  std::filesystem::path runtime_dir{};
  /// On a host without a node of the pool: "host:port" of a node that lends memory.
  std::string server{};
  /// The pool's; when empty, the one in the runtime directory.
  std::filesystem::path secret{};
  std::chrono::milliseconds time_out{10'000};  ///< for finding all nodes
};

/// A space of which nothing is written. Whatever it takes is given back when it goes. Throws UsageError when it cannot
/// be protected as it should, Error when there is no such pool, when it has not the memory, or no node answers.
[[nodiscard]] std::unique_ptr<Space> open_pool(const PoolOptions& options);

}  // namespace farside::far
