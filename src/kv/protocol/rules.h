// rules.h — what the proof of kv's protocol stands on, rule by rule (docs/protocols/kv.md).
//
// All of them hold, always. Tests of the protocol break one at a time to show that they would notice.
#pragma once

#include "base/rule.h"

namespace farside::kv {

struct KvRules {
  // Servers.
  Rule records_are_immutable = true;       ///< a new version never lies where one lies that can be asked for
  Rule keeps_superseded = true;            ///< for the grace time
  Rule keeps_unsettled_tombstones = true;  ///< a key goes only when all of the transaction that erased it is committed
  Rule refuses_what_is_behind = true;      ///< a prepare below the newest committed version
  Rule conditions_heed_the_prepared = true;  ///< a conditional write is refused while another may come before it
  Rule keeps_conditions = true;              ///< nothing is prepared below a conditional version
  Rule orders_by_timestamp = true;           ///< a commit of what is older than the newest committed changes nothing
  Rule marks_all_versions = true;        ///< whatever is not the newest is marked, not only what was so at a prepare
  Rule visible_before_answering = true;  ///< what a server says is done can be READ by then
  Rule bars_before_saying_no = true;     ///< a transaction that was reported as not prepared never is

  // Readers.
  Rule looks_at_siblings = true;        ///< the second round
  Rule wants_the_very_version = true;   ///< which is not replaced by the newest
  Rule compares_checksums = true;       ///< of records, and seals of slots
  Rule looks_at_marks = true;           ///< GET*
  Rule remembers_what_was_seen = true;  ///< a session, of versions that are not settled

  // Writers.
  Rule commits_after_all_prepared = true;
  Rule names_siblings_at_one_server = true;       ///< also of a transaction that is prepared and committed at once
  Rule timestamps_are_unique = true;              ///< the session's number is part of them
  Rule keeps_puts_at_one_server_in_doubt = true;  ///< one that was not answered is not settled before its fate is known
};

/// For partitions that have a standby.
struct ReplicaRules {
  Rule answers_after_shipping = true;        ///< a change is in the standby's memory before it is answered
  Rule writes_again = true;                  ///< all that was not flushed, when something failed
  Rule flushes_the_new_way = true;           ///< what is written over a connection that was made anew
  Rule closes_the_ring = true;               ///< nothing of the primary's comes into it once the standby takes over
  Rule drains_the_ring = true;               ///< the standby has done all that came when it serves
  Rule replays_in_place = true;              ///< the standby puts each version where its primary has it
  Rule tells_gone_keys = true;               ///< the primary, before it uses their places again
  Rule looks_at_giving_up = true;            ///< the primary, with each WRITE
  Rule serves_when_full = true;              ///< the standby that has been taught all, and no other
  Rule retracts_alone = true;                ///< the primary, before a standby that it taught counts as full
  Rule serves_after_the_epoch = true;        ///< all clients that have joined have been told by then
  Rule cuts_off_what_it_cannot_tell = true;  ///< the standby, on one host, before it serves
  Rule looks_at_the_epoch = true;            ///< a reader that took something from the primary, afterwards

  // With copies on disks.
  Rule keeps_before_taking = true;      ///< what the standby has taken is kept by its disk, and so what is answered
  Rule awaits_taking = true;            ///< the primary, where what is answered must be on both disks
  Rule claims_before_serving = true;    ///< the standby that is promoted has its new epoch on its disk by then
  Rule disowns_before_teaching = true;  ///< the primary's disk says that it is followed before a standby is full

  // Between hosts.
  Rule looks_at_the_lease = true;  ///< a reader that took something from the primary
  Rule outwaits_leases = true;     ///< the standby, before it serves
};

struct MailboxRules {
  Rule looks_at_second_indicator = true;  ///< what counts as arrived is whole
  Rule indicators_name_sequences = true;  ///< and is not what was in the slot before
  Rule tries_again = true;                ///< until its deadline, what reports that something was lost with a link
  Rule fences_slots = true;               ///< a parcel has landed for good when the next one of its slot is posted
};

}  // namespace farside::kv
