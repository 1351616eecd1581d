// rules.h — what the proofs of comm's protocols stand on, rule by rule (docs/protocols/comm.md).
//
// All of them hold, always. Tests of the protocols break one at a time to show that they would notice.
#pragma once

#include "base/rule.h"

namespace farside::comm {

struct MeetingRules {
  Rule flushes_before_arriving = true;  ///< what a member wrote is there before it says that it came
  Rule stores_before_arriving = true;   ///< and what it stored in its own memory has left its store buffer, as before
                                        ///< it releases others
  Rule counts_instances_apart = true;   ///< meetings under way at once do not share a counter
  Rule waits_for_the_slot = true;       ///< a member that has not seen its slot's last meeting end begins none
  Rule flags_name_instances = true;     ///< a release says which meeting it is of
  Rule contribution_before_arrival = true;  ///< the last one finds all that the others contributed
  Rule result_before_release = true;        ///< and a member that is released finds the result
  Rule releases_itself_first = true;  ///< while a member waits and another one was released, a living one shows it
  Rule asks_after_a_loss = true;      ///< a member that was released and left is not taken for a loss
};

struct ArrivalRules {
  Rule names_epochs = true;      ///< arrivals of epochs under way at once are counted in words of their own, by name
  Rule waits_until_open = true;  ///< no rank adds to a word that names an earlier epoch
};

struct ExchangeRules {
  Rule keeps_slots_apart = true;  ///< pieces of meetings under way at once do not share a place
};

struct SpreadRules {
  /// After a failure a child is asked which pieces it has, once nothing from before can land any more.
  Rule settles_pieces_in_doubt = true;
  Rule pieces_before_given = true;  ///< a member that is told of a piece finds it, and the order it belongs to
  Rule passes_on_before_telling =
      true;                        ///< a program that is told may change the bytes: no rank passes them on any more
  Rule waits_for_the_last = true;  ///< an order is written when all are through with the one before
};

struct MessageRules {
  Rule record_before_tail = true;         ///< a receiver that sees a tail finds the records up to it
  Rule waits_for_room = true;             ///< no place is written whose message was not taken
  Rule copies_before_giving_back = true;  ///< nor while it is being copied
  Rule tail_before_next = true;           ///< tails that go by different channels do not overtake each other
  Rule flushes_what_it_tells = true;      ///< room and departures that were told of are not lost with a link
};

struct MatchRules {
  Rule place_before_match = true;      ///< the second rank finds where the first one's bytes are
  Rule bytes_before_end = true;        ///< a rank that is told that a round has ended finds its bytes
  Rule free_before_end = true;         ///< and may begin the next one
  Rule looks_under_lock = true;        ///< of threads that begin a round at one end at once, one does
  Rule rounds_wrap_alone = true;       ///< the number of rounds carries nothing into that of those that did not fit
  Rule counts_withdrawals = true;      ///< a withdrawal that lands late withdraws no later offer or claim of the round
  Rule knows_late_withdrawals = true;  ///< a withdrawal that landed after its deadline is known to the next one
};

}  // namespace farside::comm
