// copies.h — transfers between this process and others, several under way at once.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "farside/comm/comm.h"

namespace farside {

struct Copy {
  enum class Kind : std::uint8_t { put, get };

  Kind kind;
  std::vector<Part> parts;  ///< may be of several ranks
  Notice notice;            ///< follows the last of them

  [[nodiscard]] std::uint64_t bytes() const;
};

/// All of them at once; how each ended, by its place. One that fails takes those to the same rank with it.
[[nodiscard]] std::vector<Ended> make_copies(Channel& channel, std::span<const Copy> copies, Deadline deadline);

/// Whom a notice is for.
[[nodiscard]] std::optional<Rank> target_of(const Notice& notice);
[[nodiscard]] Ended give(Channel& channel, const Notice& notice, Deadline deadline);

}  // namespace farside
