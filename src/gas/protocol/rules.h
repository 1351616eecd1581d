// rules.h — what the proof of gas's protocol stands on, rule by rule (docs/protocols/gas.md).
//
// All of them hold, always. Tests of the protocol break one at a time to show that they would notice.
#pragma once

namespace farside {

struct GasRules {
  // Caching where a page is.
  bool registers_before_reading = true;  ///< who reads an entry to keep it is among the sharers by then
  bool registering_shows = true;         ///< it changes the sharers' word, also when the rank's bit was set
  bool keeps_only_what_rests = true;     ///< an entry of a page that is being moved is not kept
  bool revoking_counts = true;           ///< `revoked` is a counter that is never reset

  // Getting.
  bool looks_after_reading = true;       ///< at `revoked`, when the bytes have come
  bool looks_again_while_moving = true;  ///< at the entry, when the bytes were read during a move

  // Putting.
  bool looks_before_writing = true;  ///< at `revoked`, when the hold was set
  bool fences_hold = true;           ///< the hold has left the store buffer before `revoked` is looked at
  bool each_thread_has_a_hold = true;
  bool flushes_before_letting_go = true;  ///< a put is visible when its hold ends
  bool awaits_what_was_given_up = true;   ///< the hold of one that was given up ends when it cannot land any more

  // Moving.
  bool locks_before_reading_sharers = true;
  bool awaits_holds = true;              ///< before the page is copied
  bool awaits_grown_holds = true;        ///< a hold that covers more pages than before goes on
  bool spares_who_gave_up = true;        ///< no rank is evicted for a put that it has given up
  bool forgets_what_was_told = true;     ///< sharers are forgotten only if no rank has registered since
  bool forgets_after_publishing = true;  ///< a rank that breaks the lock finds them
  bool publishes_by_compare_swap = true;
  bool evicts_before_passing = true;  ///< a hold that stays is passed only when its rank's access was taken away
  bool closes_when_passing = true;    ///< no rank gets from where a rank that was passed may still write

  // Using a slot again.
  bool frees_after_publishing = true;    ///< a page's old slot is free when the entry names another
  bool keeps_what_is_in_doubt = true;    ///< and a new one when no rank can publish it any more
  bool distrusts_before_freeing = true;  ///< and those that were passed have lost their access to it
  bool evicts_who_was_passed = true;     ///< a rank that was passed, and whose loss is not reported within the lease
};

}  // namespace farside
