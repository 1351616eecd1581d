// rules.h — what the proof of gas's protocol stands on, rule by rule (docs/protocols/gas.md).
//
// All of them hold, always. Tests of the protocol break one at a time to show that they would notice.
#pragma once

#include "base/rule.h"

namespace farside::gas {

struct GasRules {
  // Caching where a page is.
  Rule registers_before_reading = true;  ///< a rank that reads an entry to keep it is among the sharers by then
  Rule registering_shows = true;         ///< it changes the sharers' word, also when the rank's bit was set
  Rule keeps_only_what_rests = true;     ///< an entry of a page that is being moved is not kept
  Rule revoking_counts = true;           ///< `revoked` is a counter that is never reset

  // Getting.
  Rule looks_after_reading = true;       ///< at `revoked`, when the bytes have come
  Rule looks_again_while_moving = true;  ///< at the entry, when the bytes were read during a move

  // Putting.
  Rule looks_before_writing = true;  ///< at `revoked`, when the hold was set
  Rule fences_hold = true;           ///< the hold has left the store buffer before `revoked` is looked at
  Rule each_thread_has_a_hold = true;
  Rule flushes_before_letting_go = true;  ///< a put is visible when its hold ends
  Rule awaits_what_was_given_up = true;   ///< the hold of one that was given up ends when it cannot land any more

  // Moving.
  Rule locks_before_reading_sharers = true;
  Rule awaits_holds = true;               ///< before the page is copied
  Rule awaits_grown_holds = true;         ///< a hold that covers more pages than before goes on
  Rule spares_ranks_that_gave_up = true;  ///< no rank is evicted for a put that it has given up
  Rule forgets_what_was_told = true;      ///< sharers are forgotten only if no rank has registered since
  Rule forgets_after_publishing = true;   ///< a rank that breaks the lock finds them
  Rule publishes_by_compare_swap = true;
  Rule evicts_before_passing = true;  ///< a stale hold is skipped only after its rank's access is revoked
  Rule passes_only_if_out = true;     ///< after the team confirms the death: the lost rank may have cut this one off
  Rule closes_when_passing = true;    ///< no rank gets from where a rank that was passed may still write

  // Using a slot again.
  Rule frees_after_publishing = true;    ///< a page's old slot is free when the entry names another
  Rule keeps_what_is_in_doubt = true;    ///< and a new one when no rank can publish it any more
  Rule distrusts_before_freeing = true;  ///< and those that were passed have lost their access to it
  Rule evicts_passed_ranks = true;       ///< a rank that was passed, and whose loss is not reported within the lease
};

}  // namespace farside::gas
