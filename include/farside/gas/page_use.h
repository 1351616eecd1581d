// page_use.h — why was this remote? Which rank uses which pages of others, and what owning them would have saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "farside/comm/collectives.h"
#include "farside/gas/pages.h"

namespace farside::gas {

/// One rank's use of one page.
struct PageUse {
  PageId page;
  team::Rank rank;
  team::Rank owner;  ///< now
  std::uint64_t operations;
  std::uint64_t bytes;
  std::uint64_t remote_operations;  ///< while it did not own it
  std::uint64_t remote_bytes;

  /// Bytes that would not have moved, had the rank owned the page from the beginning: all but the page itself.
  [[nodiscard]] std::uint64_t saved_bytes(std::uint64_t page_bytes) const noexcept {
    return remote_bytes > page_bytes ? remote_bytes - page_bytes : 0;
  }
};

/// Collective, as is `collectives`: of each rank the `most` pages that it used most (by bytes), as its PageAccess has
/// counted; the most used first. The same at all ranks.
Result<std::vector<PageUse>, comm::Status> gather_use(PageAccess& access, comm::Collectives& collectives,
                                                      std::uint64_t most, Deadline deadline);

/// Returns the pages of `uses` (by gather_use) that `rank` has used more than any other rank, and does not own.
[[nodiscard]] std::vector<PageId> pages_to_own(const std::vector<PageUse>& uses, team::Rank rank);

/// A table for people: the remote uses that cost most.
[[nodiscard]] std::string report_of(const std::vector<PageUse>& uses, std::uint64_t page_bytes);

}  // namespace farside::gas
