// A coordinator that was started again, and members that have lost theirs (docs/protocols/team.md, "When the
// coordinator fails"): the seats that are kept, the processes that are awaited, and the new ones that wait for that.
#include <algorithm>
#include <memory>
#include <utility>

#include <poll.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/wire.h"
#include "fabric/host/process.h"
#include "team/coordinator.h"
#include "team/liveness.h"
#include "team/member_card.h"

namespace farside::team {

using net::FrameKind;

// The team of the log. One that had not formed, or whose ranks were all lost, has no member to go on with.
void Coordinator::take_over(const std::vector<Rank>& ended) {
  if (!membership_.is_formed() || membership_.is_deserted()) return begin_anew();
  for (const Rank rank : ended) {
    if (membership_.is_present(rank)) unseat(rank, Loss::died);
    if (!membership_.is_formed()) return;
  }
  // Members have the former silence time until they have their seats from this coordinator. It may be killed before.
  const std::uint32_t larger = std::max(membership_.state().silent_beats, silent_beats_);
  if (larger != membership_.state().silent_beats && !decide(SilenceChosen{larger})) return;
  is_unheard_ = true;
  beats_until_reached_ = kBeatsUntilReached;
  for (Rank rank = 0; rank < seats_.size(); ++rank) {
    if (membership_.is_present(rank)) await(rank, larger + kBeatsToFindCoordinator);
  }
}

// Each member that the copy had has come, or is declared dead: it is as good as any log.
void Coordinator::settle_copy() {
  if (!membership_.state().awaits_all || is_any_awaited()) return;
  TeamState state = membership_.state();
  state.awaits_all = false;
  (void)decide(std::move(state));
}

// No process has the silence time of the coordinator before any more.
void Coordinator::settle_silence() {
  if (membership_.state().silent_beats == silent_beats_ || is_any_awaited()) return;
  (void)decide(SilenceChosen{silent_beats_});
}

// The member is as it was, and lacks the changes since the epoch that it knows.
Coordinator::Refusal Coordinator::keep_seat(PeerNumber number, Peer& peer, const net::Frame& frame) {
  if (frame.kind != FrameKind::keep) return "it does not say which seat it had";
  Decoder fields(frame.fields, "the claim of a seat");
  const auto team = fields.number<std::uint64_t>();
  const auto generation = fields.number<std::uint32_t>();
  const auto incarnation = fields.number<std::uint16_t>();
  const auto epoch = fields.number<std::uint32_t>();
  fields.expect_end();
  const auto refuse_as = [&peer](FrameKind kind, std::string reason) -> Refusal {
    peer.send_last(kind, reason);
    return reason;
  };
  const SeatState& state = membership_.seat(peer.rank);
  if (generation > membership_.state().generation)
    return refuse_as(FrameKind::unknown, "it follows a coordinator that was started later from a copy of the log");
  if (membership_.has_succeeded(team)) return refuse_as(FrameKind::refused, "the others took this process for dead");
  if (!membership_.is_formed() || team != membership_.state().team)
    return refuse_as(FrameKind::unknown, "it belongs to another team than this coordinator's");
  if (epoch > membership_.state().epoch || incarnation > state.incarnation) {
    if (!std::exchange(is_behind_, true)) {
      log::error(
          "members know of decisions that this coordinator lacks: it takes none of them for dead that does not "
          "come, and they do not follow it; start it from another copy, or end the pool");
    }
    return refuse_as(FrameKind::unknown, "it knows of changes that this coordinator's log lacks");
  }
  if (!membership_.is_present(peer.rank) || incarnation != state.incarnation)
    return refuse_as(FrameKind::refused, "the others took this process for dead");
  const auto missed = membership_.notices_after(epoch);
  if (!missed) return refuse_as(FrameKind::refused, "it has missed more changes than are known here");

  Seat& seat = seats_[peer.rank];
  hang_up(seat);
  seat.holder = number;
  seat.blob.reset();  // it gives it again
  peer.keeps_seat = false;
  peer.is_unconfirmed = true;
  beats_until_reached_ = 0;
  welcome(peer);
  for (const Notice& notice : *missed) peer.send(notice.kind, std::make_shared<const std::string>(notice.fields));
  if (std::exchange(is_unheard_, false)) admit_deferred();
  keep_time();
  return {};
}

// From its beginning, and what is decided from now on.
Coordinator::Refusal Coordinator::copy_log_to(Peer& peer) {
  constexpr std::ptrdiff_t kMaxCopies = 64;
  if (!decisions_) return "this coordinator keeps no log";
  if (std::ranges::count_if(peers_, [](const auto& each) { return each.second.copies_log; }) == kMaxCopies)
    return "its log is copied by as many processes as may do so";
  peer.copies_log = true;
  peer.send(FrameKind::entry, std::make_shared<const std::string>(decisions_->head()));
  peer.send(FrameKind::entry, std::make_shared<const std::string>(encode_decision(membership_.state())));
  return {};
}

// It has nothing to say. It is gone, or hangs, when it takes nothing.
void Coordinator::keep_copying(PeerNumber number, Peer& peer) {
  if (peer.waiting() == 0 && peer.connection.unsent_bytes() == 0) {
    peer.beats_since_heard = 0;
    peer.send_beat();
  } else if (++peer.beats_since_heard > silent_beats_) {
    close(number);
  }
}

// The process of `rank`, which is present, has lost this coordinator, or the one before, and may come back.
void Coordinator::await(Rank rank, unsigned beats) {
  Seat& seat = seats_[rank];
  hang_up(seat);
  seat.beats_to_wait = beats;
  seat.blob.reset();
  keep_time();
}

// Between hosts the rank may be another machine's process by now: so it is looked up.
void Coordinator::report_dead(Rank rank) {
  loop_.post([this, rank] {
    if (!membership_.is_present(rank)) return;
    const auto holder = seats_[rank].holder;
    // The end of any other connection says so itself.
    const bool is_by_silent_connection = holder && peers_.at(*holder).is_unconfirmed;
    if ((is_awaited(rank) || is_by_silent_connection) && (is_on_one_host() || has_certainly_ended(rank)))
      unseat(rank, Loss::died);
  });
}

// By what it told of itself first, it was a process of this host.
bool Coordinator::has_certainly_ended(Rank rank) const try {
  const auto& exchanges = membership_.state().exchanges;
  if (exchanges.empty()) return false;
  const MemberCard card = MemberCard::decode(exchanges.front()[rank]);
  if (card.host != host_identity()) return false;
  const Fd process = open_process(card.process);
  pollfd ended{process.get(), POLLIN, 0};
  return !process || ::poll(&ended, 1, 0) == 1;
} catch (const Error&) {  // it cannot be found out
  return false;
}

bool Coordinator::is_any_awaited() const {
  for (Rank rank = 0; rank < seats_.size(); ++rank) {
    if (is_awaited(rank)) return true;
  }
  return false;
}

// Those that have not claimed their seats in time, counted from when any process has reached this host. On one host
// each process is there whose death was not reported.
void Coordinator::give_up_awaited() {
  if (is_on_one_host()) return;
  settle_silence();
  settle_copy();
  if (!is_any_awaited() || membership_.state().awaits_all || is_behind_) return;
  if (beats_until_reached_ != 0 && --beats_until_reached_ != 0) return;
  for (Rank rank = 0; rank < seats_.size(); ++rank) {
    if (is_awaited(rank) && seats_[rank].beats_to_wait-- == 0) unseat(rank, Loss::evicted);
  }
  if (!is_any_awaited()) is_unheard_ = false;
}

// Those whose seats were perhaps another process's until now.
void Coordinator::admit_deferred() {
  loop_.post([this] {
    for (auto& [number, peer] : peers_) {
      if (!std::exchange(peer.is_deferred, false)) continue;
      const Refusal refusal = admit(number, peer, *peer.introduction.claim());
      if (!refusal) continue;
      peer.send_last(FrameKind::refused, *refusal);
      close(number);
      log_refusal(*refusal);
    }
  });
}

}  // namespace farside::team
