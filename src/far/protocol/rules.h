// rules.h — what the proof of far memory's protocol stands on, rule by rule (docs/protocols/far.md).
//
// All of them hold, always. Tests of the protocol break one at a time to show that they would notice.
#pragma once

namespace farside::far {

struct FarRules {
  // Nodes.
  bool revokes_before_reclaiming = true;  ///< a client's slabs are free only when its access was taken away
  bool zeroes = true;                     ///< what may be taken reads as zeros

  // Clients.
  bool keeps_unfinished = true;    ///< a slab with an unfinished write is known as such, and so never given back
  bool settles_first = true;       ///< a write that timed out is over before any process's next one begins there
  bool writes_all_copies = true;   ///< a write is done when it is at every living copy
  bool flushes_writes = true;      ///< and visible there
  bool flushes_lost_links = true;  ///< what a lost link leaves is over when a flush over the next one is done
  bool rebuilds_alone = true;      ///< no process writes to a slab while it is copied
  bool gives_back_alone = true;    ///< no process accesses a slab while it is given back
};

}  // namespace farside::far
