// pieces.h — what goes through pages that follow each other, page by page.
//
// Stands alone: gets and puts of the array and of the protocol are cut in the same way.
#pragma once

#include <algorithm>
#include <cstdint>

#include "farside/gas/page.h"

#include "base/assert.h"

namespace farside::gas {

/// Calls `visit(page, offset, at, bytes)` for what each page has of `part`: `bytes` from `offset` on, which locally
/// come after `at` others.
template <class Visit>
void for_each_piece(const PagePart& part, std::uint64_t page_bytes, Visit visit) {
  assert_in_tests(part.offset <= page_bytes, "a part begins in its first page");
  const std::uint64_t all = part.local.bytes();
  PageId page = part.page;
  std::uint64_t offset = part.offset;
  for (std::uint64_t at = 0; at < all; ++page, offset = 0) {
    const std::uint64_t bytes = std::min(all - at, page_bytes - offset);
    visit(page, offset, at, bytes);
    at += bytes;
  }
}

}  // namespace farside::gas
