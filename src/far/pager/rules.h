// rules.h — what the proof that no write is lost stands on, rule by rule (docs/protocols/far_pager.md).
//
// All of them hold, always. Tests break one at a time to show that they would notice.
//
// Stands alone: as in each protocol, all rules of the proof are in one place.
#pragma once

#include "base/rule.h"

namespace farside::far {

struct PagerRules {
  Rule protects_before_copying = true;  ///< a page that leaves is write-protected before its bytes are read
  Rule drops_only_what_stayed = true;   ///< and goes only if it was not written to since
  Rule stores_before_dropping = true;   ///< and only after the space has its bytes
  Rule erases_what_turned_zero = true;  ///< a page that is zeros again is erased where its bytes were stored
};

}  // namespace farside::far
