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
  bool remembers_losses = true;    ///< what lay on lost nodes alone, and was not written since, is lost, not zero
  bool fills_blocks = true;        ///< where a part of a block of zeros is written, the rest is zeros in memory before
  bool fills_alone = true;         ///< and no process writes to another part meanwhile

  // Clients, of nodes that do not answer.
  bool reads_other_copy = true;       ///< a reader does not wait for one of them as long as another copy's node answers
  bool writes_unresponsive = true;    ///< a write leaves out lost nodes only: what missed a write is never read again
  bool gives_up_unresponsive = true;  ///< one that does not answer for long is lost to this client
  bool keeps_last_copies = true;      ///< unless it has the only copy of something
  bool gives_up_one_of_several = true;  ///< or the nodes with the other copies do not answer either
};

}  // namespace farside::far
