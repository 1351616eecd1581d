// rules.h — what the proof of the protocol stands on, rule by rule.
//
// All of them hold, always. Tests of the protocol break one at a time to show that they would notice.
//
// Stands alone: tests and tools of the simulator name the rules without the code that keeps them.
#pragma once

#include "base/rule.h"

namespace farside::cache {

struct CacheRules {
  Rule compares_ids = true;              ///< a copy looks whether the slot bears the block's id
  Rule compares_tokens = true;           ///< and whether its token is the same before and after
  Rule compares_keys = true;             ///< and whether the key that came along is the one wanted
  Rule reads_header_again = true;        ///< the "after" is a second READ
  Rule reads_header_words_alone = true;  ///< so that none of them is split
  Rule token_follows_bytes = true;       ///< a slot is filled before it gets its token, not after
  Rule token_tells_lives = true;         ///< a token contains the incarnation of the node that gave it
  Rule cells_are_exchanged = true;       ///< a cell changes by COMPARE_SWAP, not by whatever comes last
  Rule cell_follows_bytes = true;        ///< a cell says loaded when the block is there, not before
  Rule lease_expires = true;             ///< a loader that is silent is replaced
  Rule lease_is_waited_for = true;       ///< but not before it has been silent for the lease
  Rule slot_outlives_lease = true;       ///< a node that is silent for a lease keeps its slot
  Rule claims_look_again = true;         ///< a node that claims a row or first uses it checks for another claim
  Rule claims_are_alone = true;          ///< no row is claimed in a bucket with another claim
  Rule discard_looks_again = true;       ///< a node that drops a block checks for a cell that it was handed meanwhile

  // No proof stands on this one, only how often the file system is asked (docs/figures_anco.md).
  bool deals_ranks_to_groups = true;  ///< neighbours are in different groups; otherwise a group is a row of neighbours
};

}  // namespace farside::cache
