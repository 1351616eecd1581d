// network.h — how the simulated network behaves: as badly as the memory model of docs/protocols/fabric.md allows.
//
// Each rule has a switch. A run draws a random set of them from its seed, or takes the set it is given.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "farside/fabric/time.h"

namespace farside::sim {

struct Network {
  // Rule 1: a transfer is a set of accesses of at most `grain_bytes` in any order, and words may be stored twice. With
  // 4 the words of a transfer of more than 8 bytes are split.
  std::uint32_t grain_bytes = 4;  ///< 4, 8 or 64
  bool stores_twice = true;
  // Rule 2: operations of one channel to one target are unordered unless fenced.
  bool reorders = true;
  // Rule 3: completion says nothing of visibility.
  bool completes_before_visible = true;
  // A process's own stores reach memory later and in any order, until local_fence.
  bool buffers_stores = true;
  // Its loads and stores are single accesses, in a copy as well: others' steps come in between.
  bool interleaves_accesses = true;
  // Rule 4: an atomic is a load and a store to everything but other atomics.
  bool splits_atomics = true;
  // Rule 5: an operation may land long after its poster gave it up or died.
  bool lands_late = true;
  std::optional<std::uint32_t> slow_process;  ///< of whose steps half are late, instead of one in a hundred
  // And its answer may come long after it landed. That of a peer that died, or took the access away, may be lost.
  bool answers_late = true;
  // A thread is stopped now and then between what it saw and what it posts.
  bool stalls_before_posting = true;
  // A wait that runs out ends all that its channel has under way to that peer, whose next operation goes over a new
  // link. Completed WRITEs that were not flushed may be lost with the old one.
  bool replaces_links = true;
  // So does a flush that runs out when all that was posted before it has completed: then it is itself under way.
  bool flushes_replace_links = true;
  // If operations go by several ways only a flush orders these, so that a fence waits for visibility, and replaces
  // links, as a flush does.
  bool fences_flush = false;
  // Operations of a process proceed while it is in a call of the fabric, and not in between.
  bool needs_calls_for_progress = true;
  // A link, also that of a process to itself, breaks as an operation comes back, once in three hundred: what had taken
  // effect is told of as link_lost.
  bool breaks_links = false;
  // Each process's clock has its own rate and offset.
  bool clocks_drift = true;
  // A pause may be one of the machine: its clock stands still.
  bool clocks_stop = true;
  // A waiter is woken by signals alone. It finds other changes when it looks for itself: after 50 us, then after twice
  // that, up to 100 ms. Otherwise it looks at random moments.
  bool misses_plain_writes = true;
  // To take a peer's access away takes time. Its deadline may pass before that has happened, or before that is known.
  bool revokes_slowly = true;
  // A region that was destroyed reads as zeros, where a peer still reaches it.
  bool freed_reads_blank = true;
  // The next event is chosen by priorities (scheduler.h), not by uniform delays.
  bool prioritizes = false;

  // Over mapped memory a dead peer answers until it is declared dead; over a network it does not.
  bool dead_memory_answers = false;
  // On one host a process whose access is to be taken away is killed; over a network it goes on, and finds its peer
  // lost.
  bool revoking_kills = true;
  // If it goes on, the launcher tells all members of an eviction, also the one that was evicted. PMIx tells none.
  bool announces_evictions = true;
  // It does not get in again by another connection. No fabric lets it; a test does, to show that it would notice.
  bool revoking_lasts = true;

  Duration latency = std::chrono::microseconds(2);       ///< the usual longest time of a step
  Duration long_latency = std::chrono::milliseconds(2);  ///< that of a late step, and of a stall
  Duration detection = std::chrono::milliseconds(10);    ///< the longest time until a death is known
};

}  // namespace farside::sim
