#include "team/coordinator.h"

#include <algorithm>
#include <cerrno>
#include <future>
#include <thread>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "base/file_limit.h"
#include "base/random_bits.h"
#include "base/wire.h"
#include "team/liveness.h"
#include "team/time_limits.h"

namespace farside::team {

namespace {

using net::FrameKind;

constexpr std::size_t kStrangerLimit = 128;

}  // namespace

Coordinator::Coordinator(const std::string& address, const net::Secret& secret, Rank size, Admission admission,
                         std::optional<Log> log, std::chrono::milliseconds silence)
    : secret_(secret),
      admission_(std::move(admission)),
      silent_beats_(team::silent_beats(silence)),
      membership_(size),
      seats_(size),
      listener_(net::listen_on(address)) {
  assert_that(size != 0, "a team has a member");
  allow_many_files();  // one for each member
  address_ = net::bound_address(listener_, address);
  assert_that(silence >= kMinSilence && silence <= kMaxSilence, "the silence time is in range");
  membership_.apply(TeamState{
      .team = random_bits<std::uint64_t>(), .seats = std::vector<SeatState>(size), .silent_beats = silent_beats_});
  if (log) decisions_.emplace(std::move(log->store), std::move(log->terms), membership_, log->newer);
  loop_.post([this, ended = log ? log->ended : std::vector<Rank>{}] {
    loop_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_peer(); });
    take_over(ended);
  });
}

void Coordinator::end_team() {
  loop_.post([this] { broadcast(FrameKind::ended, {}); });
  loop_.stop();
  if (decisions_ && !has_given_up_) (void)decisions_->remove();
}

// The members' last words may still be on their way to this process.
bool Coordinator::end_if_deserted(const std::vector<Rank>& ended) {
  const auto until = net::SetupClock::now() + time_limits::kLastWords;
  for (bool is_any_left = true; is_any_left && net::SetupClock::now() < until;) {
    std::promise<bool> answer;
    loop_.post([this, &ended, &answer] {
      const auto is_present = [this](Rank rank) { return membership_.is_present(rank); };
      for (const Rank rank : ended) {
        if (is_present(rank) && has_certainly_ended(rank)) unseat(rank, Loss::left);
      }
      answer.set_value(!has_given_up_ && std::ranges::any_of(ended, is_present));
    });
    is_any_left = answer.get_future().get();
    if (is_any_left) std::this_thread::sleep_for(time_limits::kLook);
  }
  loop_.stop();
  if (membership_.is_formed() || !decisions_ || has_given_up_) return false;
  return decisions_->remove();
}

TeamState Coordinator::take_state() {
  loop_.stop();
  return membership_.state();
}

void Coordinator::rewrite_log() {
  loop_.post([this] {
    if (decisions_ && !has_given_up_ && decisions_->rewrite() != DecisionLog::Kept::kept) give_up();
  });
}

// ---- Decisions

// Has `decision` in the log, and then in effect. False: the log failed, and this coordinator decides nothing any more.
// On one host it goes on without a log that is gone, since the kernel reports the deaths: the next one, which finds no
// log, is that of another team, as is one between hosts.
bool Coordinator::decide(Decision decision) {
  if (has_given_up_) return false;
  if (decisions_) {
    if (const auto kept = decisions_->append(decision); kept != DecisionLog::Kept::kept && !can_do_without_log(kept)) {
      give_up();
      return false;
    }
  }
  hand_on(decision);
  membership_.apply(std::move(decision));
  return true;
}

// To those that copy the log.
void Coordinator::hand_on(const Decision& decision) {
  SharedFields entry;
  for (auto& [number, peer] : peers_) {
    if (!peer.copies_log) continue;
    if (entry == nullptr) entry = std::make_shared<const std::string>(encode_decision(decision));
    peer.send(FrameKind::entry, entry);
  }
}

bool Coordinator::can_do_without_log(DecisionLog::Kept kept) {
  if (kept == DecisionLog::Kept::superseded) return false;  // its candidacy says so
  const std::string why = decisions_->why();
  if (!is_on_one_host() || !decisions_->remove()) {
    log::error(
        "deaths of members are not noticed any more, and no process joins; the nodes of other machines keep "
        "what they have: " +
        why);
    return false;
  }
  decisions_.reset();
  log::error("the nodes go on, and no process of farside up can take them over when this one has ended: " + why);
  return true;
}

// The members go on, as when its process had been killed.
void Coordinator::give_up() {
  has_given_up_ = true;
  loop_.forget(listener_.get());
  listener_.reset();
  loop_.post([this] {
    peers_.clear();
    for (Seat& seat : seats_) seat.holder.reset();
    keep_time();
  });
}

// All members, of the change that was decided last.
void Coordinator::tell_of_change() {
  Notice notice = membership_.notices_after(membership_.state().epoch - 1)->front();
  broadcast(notice.kind, std::move(notice.fields));
}

// ---- Peers

// One at a time, so that the members are served between two of a crowd.
void Coordinator::accept_peer() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno != EMFILE && errno != ENFILE) return;
    constexpr const char* kWhy = "too many descriptors are open";
    if (refuse_oldest_stranger(kWhy)) return;
    log_.warn("cannot accept a connection to " + address_ + ": " + kWhy);
    loop_.rest(listener_.get());
    return;
  }
  const std::size_t waiting = strangers();
  assert_that(waiting <= kStrangerLimit, "a bounded number of strangers waits");
  if (waiting == kStrangerLimit) refuse_oldest_stranger("too many strangers wait");
  const PeerNumber number = next_peer_++;
  peers_.try_emplace(number, loop_, std::move(socket), [this, number] { serve(number); });
  keep_time();
}

void Coordinator::serve(PeerNumber number) {
  Peer& peer = peers_.at(number);
  const bool open = peer.connection.receive();
  Refusal refusal;
  try {
    refusal = advance(number, peer);
  } catch (const Error& error) {  // what it sent is malformed
    refusal = error.what();
  }
  if (refusal) return refuse(number, *refusal);
  if (open) return;
  if (peer.is_stranger()) return refuse(number, "it left during the handshake");
  if (!seated(number, peer)) return close(number);
  // The kernel closes the connections of a process that has ended. One that broke may be that of a living member.
  const bool may_live = peer.is_unconfirmed || (peer.connection.broke() && !is_on_one_host());
  if (may_live && membership_.is_present(peer.rank)) return await(peer.rank, silent_beats_);
  unseat(peer.rank, Loss::died);
}

Coordinator::Refusal Coordinator::advance(PeerNumber number, Peer& peer) {
  if (!peer.session) {
    if (Refusal refusal = shake_hands(number, peer)) return refusal;
  }
  if (peer.copies_log && !peer.connection.received().empty()) return "it copies the log, and has nothing to say";
  while (peer.session && (seated(number, peer) || peer.keeps_seat)) {
    const auto [next, frame] = peer.session->open(peer.connection.received());
    if (next == net::Session::Next::incomplete) break;
    if (next == net::Session::Next::broken) return "its frame is too long or was altered";
    peer.beats_since_heard = 0;
    peer.is_unconfirmed = false;
    if (Refusal refusal = peer.keeps_seat ? keep_seat(number, peer, frame) : obey(peer, frame)) return refusal;
  }
  return {};
}

Coordinator::Refusal Coordinator::shake_hands(PeerNumber number, Peer& peer) {
  const auto send_raw = [&peer](std::string_view bytes) { peer.connection.send(bytes); };
  if (Refusal refusal = peer.introduction.advance(secret_, peer.connection.received(), send_raw)) return refusal;
  const auto& claim = peer.introduction.claim();
  if (!claim) return {};
  peer.session.emplace(peer.introduction.key(secret_), net::Session::Side::coordinator, net::kBlobLimit + 16);
  Refusal refusal = admit(number, peer, *claim);
  if (refusal) peer.send_last(FrameKind::refused, *refusal);
  keep_time();
  return refusal;
}

Coordinator::Refusal Coordinator::admit(PeerNumber number, Peer& peer, const net::Claim& claim) {
  const std::string rank = "rank " + std::to_string(claim.rank);
  if (claim.rank >= seats_.size()) return rank + " does not exist in a team of " + std::to_string(seats_.size());
  Seat& seat = seats_[claim.rank];
  peer.rank = claim.rank;
  if (claim.purpose == net::ClaimPurpose::copy_log) {
    return copy_log_to(peer);
  }
  if (claim.purpose == net::ClaimPurpose::keep_seat) {
    peer.keeps_seat = true;
    return {};
  }
  if (claim.purpose != net::ClaimPurpose::take_seat) return "it claims " + rank + " in a way that does not exist";
  if (seat.holder) return rank + " is taken";
  if (is_awaited(claim.rank) || (is_unheard_ && is_any_awaited())) {
    peer.is_deferred = true;
    beats_until_reached_ = 0;  // the network is there
    return {};
  }
  assert_that(!seat.blob && seat.repeated.empty(), "an empty seat has no part in any exchange");
  if (!decide(Admitted{claim.rank})) return "the coordinator's log failed";
  seat.holder = number;
  welcome(peer);
  return {};
}

void Coordinator::welcome(Peer& peer) const {
  const TeamState& state = membership_.state();
  Encoder fields;
  fields.number(state.team)
      .number(state.generation)
      .number(membership_.size())
      .number(membership_.seat(peer.rank).incarnation);
  fields.number(state.epoch).number(static_cast<std::uint32_t>(state.exchanges.size())).number(silent_beats_);
  fields.choice(std::uint8_t{decisions_ || !is_on_one_host()});
  for (Rank other = 0; other < membership_.size(); ++other) {
    if (membership_.is_formed() && !membership_.is_present(other)) fields.number(other);
  }
  peer.send(FrameKind::welcome, std::make_shared<const std::string>(fields.take()));
}

Coordinator::Refusal Coordinator::obey(Peer& peer, const net::Frame& frame) {
  switch (frame.kind) {
    case FrameKind::contribute: {
      Refusal refusal = contribute(peer.rank, frame);
      if (refusal) peer.send_last(FrameKind::refused, *refusal);
      return refusal;
    }
    case FrameKind::leave: unseat(peer.rank, Loss::left); return {};
    case FrameKind::beat: return {};
    case FrameKind::evict: return evict(frame);
    default: return "its frame is of a kind that members do not send";
  }
}

// Evicts only the incarnation that the frame names: its successor may have taken the seat while the frame was under
// way.
Coordinator::Refusal Coordinator::evict(const net::Frame& frame) {
  Decoder fields(frame.fields, "an eviction");
  const auto rank = fields.number<Rank>();
  const auto incarnation = fields.number<std::uint16_t>();
  fields.expect_end();
  if (rank >= seats_.size()) return "it evicts a rank that does not exist";
  if (membership_.seat(rank).incarnation == incarnation) unseat(rank, Loss::evicted);
  return {};
}

bool Coordinator::seated(PeerNumber number, const Peer& peer) const { return seats_[peer.rank].holder == number; }

void Coordinator::refuse(PeerNumber number, const std::string& reason) {
  const Peer& peer = peers_.at(number);
  if (seated(number, peer)) unseat(peer.rank, Loss::evicted);
  close(number);
  log_refusal(reason);
}

void Coordinator::log_refusal(const std::string& reason) {
  log_.warn("refused a connection to " + address_ + ": " + reason);
}

std::size_t Coordinator::strangers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(peers_, [](const auto& entry) { return entry.second.is_stranger(); }));
}

// Returns false when there is none. Erases it at once: its place is wanted, and no caller is looking at it.
bool Coordinator::refuse_oldest_stranger(const std::string& reason) {
  auto oldest = std::ranges::find_if(peers_, [](const auto& entry) { return !entry.second.session; });
  if (oldest == peers_.end())  // those that have proved to know the secret make room last
    oldest = std::ranges::find_if(peers_, [](const auto& entry) { return entry.second.is_stranger(); });
  if (oldest == peers_.end()) return false;
  peers_.erase(oldest);
  log_refusal(reason);
  return true;
}

void Coordinator::unseat(Rank rank, Loss loss) {
  Seat& seat = seats_[rank];
  if (membership_.is_present(rank)) {
    if (!decide(Lost{rank, loss})) return;
    tell_of_change();
    for (Seat& other : seats_) other.blob.reset();  // the exchange under way ends with its epoch
    due_.reset();
  }
  hang_up(seat);
  seat.repeated.clear();
  seat.blob.reset();
  if (membership_.is_deserted()) return begin_anew();
  admit_deferred();
}

// No process is left that knows what the team had agreed on. A process that was just repeating it has no team to join.
// If no process of a team that was taken over has been seen, its successor is as new as one that begins without a log.
void Coordinator::begin_anew() {
  const TeamState& former = membership_.state();
  TeamState fresh{.team = former.team + 1,
                  .generation = former.generation,
                  .epoch = former.epoch,
                  .seats = former.seats,
                  .silent_beats = silent_beats_};
  if (std::exchange(is_unheard_, false) || !membership_.is_formed()) fresh.seats.assign(seats_.size(), {});
  if (!decide(std::move(fresh))) return;
  for (Seat& seat : seats_) {
    hang_up(seat);
    seat.repeated.clear();
  }
  admit_deferred();
}

// The connection of its holder, if it has one.
void Coordinator::hang_up(Seat& seat) {
  if (seat.holder) close(*std::exchange(seat.holder, std::nullopt));
}

// Erases the peer later: the caller may still be looking at it.
void Coordinator::close(PeerNumber number) {
  loop_.post([this, number] {
    peers_.erase(number);
    keep_time();
  });
}

void Coordinator::broadcast(FrameKind kind, std::string fields) {
  const auto shared = std::make_shared<const std::string>(std::move(fields));
  for (auto& [number, peer] : peers_) {
    if (peer.session && seated(number, peer)) peer.send(kind, shared);
  }
}

// The timer runs only while a peer shakes hands, a member waits for others, or another host may fall silent.
void Coordinator::keep_time() {
  const bool wanted = strangers() != 0 || due_ || (!is_on_one_host() && (!peers_.empty() || is_any_awaited()));
  if (wanted == ticking_) return;
  ticking_ = wanted;
  loop_.tick(wanted ? kBeatInterval : std::chrono::milliseconds(0), [this] { on_tick(); });
}

void Coordinator::on_tick() {
  const auto now = net::SetupClock::now();
  if (due_ && now > *due_) fail_exchange(absentees() + " did not take part in time");
  for (auto& [number, peer] : peers_) {
    if (peer.is_stranger()) {
      if (now - peer.came > time_limits::kHandshake) refuse(number, "it did not finish the handshake in time");
    } else if (!is_on_one_host() && seated(number, peer)) {
      if (++peer.beats_since_heard > silent_beats_)
        unseat(peer.rank, Loss::evicted);
      else
        peer.send_beat();
    } else if (peer.copies_log) {
      keep_copying(number, peer);
    }
  }
  give_up_awaited();
  admit_deferred();
  keep_time();
}

}  // namespace farside::team
