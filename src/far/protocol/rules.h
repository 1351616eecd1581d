// rules.h — what the proof of far memory's protocol stands on, rule by rule (docs/protocols/far.md).
//
// All of them hold, always. Tests of the protocol break one at a time to show that they would notice.
//
// Stands alone: lender and slab map each keep some of them.
#pragma once

#include "base/rule.h"

namespace farside::far {

struct FarRules {
  // Nodes.
  Rule revokes_before_reclaiming = true;  ///< a client's slabs are free only when its access was taken away
  Rule zeroes = true;                     ///< what may be taken reads as zeros

  // Clients.
  Rule keeps_unfinished = true;    ///< a slab with an unfinished write is known as such, and so never given back
  Rule settles_first = true;       ///< a write that timed out is over before any process's next one begins there
  Rule writes_all_copies = true;   ///< a write is done when it is at every living copy
  Rule flushes_writes = true;      ///< and visible there
  Rule flushes_lost_links = true;  ///< what a lost link leaves is over when a flush over the next one is done
  Rule rebuilds_alone = true;      ///< no process writes to a slab while it is copied
  Rule gives_back_alone = true;    ///< no process accesses a slab while it is given back
  Rule remembers_losses = true;    ///< what lay on lost nodes alone, and was not written since, is lost, not zero
  Rule fills_blocks = true;        ///< where a part of a block of zeros is written, the rest is zeros in memory before
  Rule fills_alone = true;         ///< and no process writes to another part meanwhile

  // Clients, of nodes that do not answer.
  Rule reads_other_copy = true;       ///< a reader does not wait for one of them as long as another copy's node answers
  Rule writes_unresponsive = true;    ///< a write leaves out lost nodes only: what missed a write is never read again
  Rule gives_up_unresponsive = true;  ///< one that does not answer for long is lost to this client
  Rule keeps_last_copies = true;      ///< unless it has the only copy of something
  Rule gives_up_one_of_several = true;  ///< or the nodes with the other copies do not answer either
};

}  // namespace farside::far
