// page_observer.h — is told of what pages do, to count it for each part of a memory.
//
// Stands alone: it is the interface between the pager and what counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "far/pager/page_table.h"

namespace farside::far {

enum class PageEvent : std::uint8_t {
  fetched,     ///< came from the space
  used_ahead,  ///< of these, came before it was asked for, and is thought to have been used
  written,     ///< to for the first time since it was fetched; or that is foreseen
  stored,      ///< written to the space
};
inline constexpr std::size_t kPageEvents = 4;

/// Thread safety: called from any thread and from fault handlers, while pages are locked.
class PageObserver {
 public:
  virtual ~PageObserver() = default;
  PageObserver(const PageObserver&) = delete;
  PageObserver& operator=(const PageObserver&) = delete;

  /// Reports an event of `count` pages: `page` is one of them, and the others are its neighbours.
  virtual void note(PageEvent event, PageNumber page, std::uint64_t count) = 0;

 protected:
  PageObserver() = default;
};

}  // namespace farside::far
