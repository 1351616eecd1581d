#include "team/coordinator.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/file_limit.h"
#include "base/wire.h"
#include "team/liveness.h"
#include "team/time_limits.h"

namespace farside::team {

namespace {

using net::FrameKind;

constexpr std::size_t kStrangerLimit = 128;
constexpr std::size_t kPartBytes = 16 << 10;    // of a gathered exchange, in one frame
constexpr std::size_t kUnsentBytes = 16 << 10;  // beyond which nothing more is sealed for a peer

}  // namespace

Coordinator::Coordinator(const std::string& address, const net::Secret& secret, Rank size, Admission admission)
    : secret_(secret), admission_(std::move(admission)), seats_(size), listener_(net::listen_on(address)) {
  assert_that(size != 0, "a team has a member");
  allow_many_files();  // one for each member
  address_ = net::bound_address(listener_, address);
  loop_.post([this] { loop_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_peer(); }); });
}

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
  Peer& peer = peers_[number];
  peer.came = net::SetupClock::now();
  peer.connection = std::make_unique<net::Connection>(loop_, std::move(socket), [this, number] { serve(number); });
  peer.connection->on_taken([&peer] { send_what_fits(peer); });
  keep_time();
}

void Coordinator::serve(PeerNumber number) {
  Peer& peer = peers_.at(number);
  const bool open = peer.connection->receive();
  Refusal refusal;
  try {
    refusal = advance(number, peer);
  } catch (const Error& error) {  // what it sent is malformed
    refusal = error.what();
  }
  if (refusal) return refuse(number, *refusal);
  if (open) return;
  if (!peer.session) return refuse(number, "it left during the handshake");
  if (seated(number, peer)) unseat(peer.rank, Loss::died);
}

Coordinator::Refusal Coordinator::advance(PeerNumber number, Peer& peer) {
  if (!peer.session) {
    if (Refusal refusal = shake_hands(number, peer)) return refusal;
  }
  while (peer.session && seated(number, peer)) {
    net::Frame frame;
    const net::Session::Next next = peer.session->open(peer.connection->received(), frame);
    if (next == net::Session::Next::incomplete) break;
    if (next == net::Session::Next::broken) return "its frame is too long or was altered";
    peer.beats_since_heard = 0;
    if (Refusal refusal = obey(peer, frame)) return refusal;
  }
  return {};
}

Coordinator::Refusal Coordinator::shake_hands(PeerNumber number, Peer& peer) {
  const auto send_raw = [&peer](std::string_view bytes) { peer.connection->send(bytes); };
  if (Refusal refusal = peer.introduction.advance(secret_, peer.connection->received(), send_raw)) return refusal;
  const auto& claim = peer.introduction.claim();
  if (!claim) return {};
  peer.session.emplace(peer.introduction.key(secret_), net::Session::Side::coordinator, net::kBlobLimit + 16);
  Refusal refusal = admit(number, peer, *claim);
  if (refusal) peer.connection->send(peer.session->seal(FrameKind::refused, Encoder().text(*refusal).take()));
  keep_time();
  return refusal;
}

Coordinator::Refusal Coordinator::admit(PeerNumber number, Peer& peer, const net::Claim& claim) {
  const std::string rank = "rank " + std::to_string(claim.rank);
  if (claim.rank >= seats_.size()) return rank + " does not exist in a team of " + std::to_string(seats_.size());
  Seat& seat = seats_[claim.rank];
  if (seat.holder) return rank + " is taken";
  assert_that(!seat.present && !seat.blob && seat.repeated.empty(), "an empty seat has no part in any exchange");

  seat.holder = number;
  seat.incarnation = seat.next_incarnation++;
  seat.present = complete_.empty();
  peer.rank = claim.rank;
  Encoder fields;
  fields.number(static_cast<std::uint32_t>(seats_.size())).number(seat.incarnation).number(epoch_);
  fields.number(static_cast<std::uint32_t>(complete_.size()));
  for (Rank other = 0; other < seats_.size(); ++other) {
    if (!complete_.empty() && !seats_[other].present) fields.number(other);
  }
  send(peer, FrameKind::welcome, std::make_shared<const std::string>(fields.take()));
  return {};
}

Coordinator::Refusal Coordinator::obey(Peer& peer, const net::Frame& frame) {
  switch (frame.kind) {
    case FrameKind::contribute: {
      Refusal refusal = contribute(peer.rank, frame);
      if (refusal) peer.connection->send(peer.session->seal(FrameKind::refused, Encoder().text(*refusal).take()));
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
  if (seats_[rank].incarnation == incarnation) unseat(rank, Loss::evicted);
  return {};
}

Coordinator::Refusal Coordinator::contribute(Rank rank, const net::Frame& frame) {
  Seat& seat = seats_[rank];
  assert_that(seat.holder.has_value(), "a rank that contributes holds its seat");
  Decoder fields(frame.fields, "a contribution");
  const auto number = fields.number<std::uint32_t>();
  const auto epoch = fields.number<std::uint32_t>();
  const auto due = net::SetupClock::now() + std::chrono::milliseconds(fields.number<std::uint32_t>());
  std::string blob = fields.text();
  fields.expect_end();
  if (number == 0) {
    if (Refusal refusal = examine(rank, blob)) return refusal;
  }
  if (!seat.present) return repeat(rank, number, std::move(blob));

  if (number != complete_.size() || seat.blob) return "it contributes out of turn";
  if (epoch != epoch_) return {};  // it has given up when it hears of the loss, and contributes again if it likes
  seat.blob = std::move(blob);
  due_ = std::min(due, due_.value_or(due));
  if (std::ranges::all_of(seats_, [](const Seat& other) { return other.blob.has_value(); })) {
    complete_exchange();
  } else if (const auto missed = std::ranges::find_if(seats_, [](const Seat& other) { return !other.missed.empty(); });
             missed != seats_.end()) {
    fail_exchange("rank " + std::to_string(missed - seats_.begin()) + " " + missed->missed + " and never joined");
  }
  keep_time();
  return {};
}

Coordinator::Refusal Coordinator::examine(Rank rank, const std::string& first) const try {
  if (admission_) admission_(rank, first);
  return {};
} catch (const Error& error) {
  const Failure& failure = error.failure();
  return failure.on + ": " + failure.why + (failure.remedy.empty() ? "" : "; " + failure.remedy);
}

void Coordinator::complete_exchange() {
  std::vector<std::string>& gathered = complete_.emplace_back();
  for (Seat& seat : seats_) {
    assert_that(seat.present && seat.blob, "an exchange is complete when every rank is present and has contributed");
    gathered.push_back(*std::exchange(seat.blob, std::nullopt));
  }
  due_.reset();
  const std::vector<Fields> parts = parts_of(gathered);
  for (auto& [number, peer] : peers_) {
    if (!peer.session || !seated(number, peer)) continue;
    for (const Fields& part : parts) send(peer, FrameKind::gathered, part);
  }
}

void Coordinator::fail_exchange(const std::string& reason) {
  for (Seat& seat : seats_) seat.blob.reset();
  due_.reset();
  broadcast(FrameKind::failed, Encoder().text(reason).take());
}

std::string Coordinator::absentees() const {
  constexpr std::size_t kMaxNamed = 100;
  std::string names;
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (seats_[rank].blob || ++count > kMaxNamed) continue;
    names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  return count <= kMaxNamed ? names : names + " and " + std::to_string(count - kMaxNamed) + " others";
}

void Coordinator::miss(Rank rank, const std::string& how) {
  loop_.post([this, rank, how] {
    if (!complete_.empty()) return;
    seats_.at(rank).missed = how;
    if (due_) fail_exchange("rank " + std::to_string(rank) + " " + how + " and never joined");
  });
}

// The successor of a lost rank takes part in the exchanges that it missed. The others do not wait for it: what they
// gave is known, and they get what it gives all at once, with its last exchange.
Coordinator::Refusal Coordinator::repeat(Rank rank, std::uint32_t number, std::string blob) {
  Seat& seat = seats_[rank];
  if (number != seat.repeated.size()) return "it contributes out of turn";
  assert_that(number < complete_.size(), "a rank that repeats exchanges lacks one that is complete");
  seat.repeated.push_back(std::move(blob));
  std::vector<std::string> blobs = complete_[number];
  blobs[rank] = seat.repeated.back();
  if (seat.repeated.size() == complete_.size()) {
    seat.present = true;
    Encoder fields;
    fields.number(++epoch_).number(rank);
    for (std::size_t exchange = 0; exchange < complete_.size(); ++exchange) {
      fields.text(seat.repeated[exchange]);
      complete_[exchange][rank] = std::move(seat.repeated[exchange]);
    }
    seat.repeated.clear();
    broadcast(FrameKind::returned, fields.take());
  }
  for (Fields& part : parts_of(blobs)) send(peers_.at(*seat.holder), FrameKind::gathered, std::move(part));
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
      std::ranges::count_if(peers_, [](const auto& entry) { return !entry.second.session; }));
}

// Returns false when there is none. Erases it at once: its place is wanted, and no caller is looking at it.
bool Coordinator::refuse_oldest_stranger(const std::string& reason) {
  const auto oldest = std::ranges::find_if(peers_, [](const auto& entry) { return !entry.second.session; });
  if (oldest == peers_.end()) return false;
  peers_.erase(oldest);
  log_refusal(reason);
  return true;
}

void Coordinator::unseat(Rank rank, Loss loss) {
  Seat& seat = seats_[rank];
  if (!seat.holder) return;
  const bool was_present = std::exchange(seat.present, false);
  if (was_present && !complete_.empty()) {
    const std::string fields = Encoder().number(++epoch_).number(rank).number(static_cast<std::uint8_t>(loss)).take();
    broadcast(FrameKind::lost, fields);
    for (Seat& other : seats_) other.blob.reset();  // the exchange under way ends with its epoch
    due_.reset();
  }
  close(*seat.holder);
  seat.holder.reset();
  seat.repeated.clear();
  seat.blob.reset();
  if (std::ranges::none_of(seats_, &Seat::present)) begin_anew();
}

// No process is left that knows what the team had agreed on. A process that was just repeating it has no team to join.
void Coordinator::begin_anew() {
  complete_.clear();
  for (Seat& seat : seats_) {
    if (seat.holder) close(*std::exchange(seat.holder, std::nullopt));
    seat.repeated.clear();
  }
}

// Erases the peer later: the caller may still be looking at it.
void Coordinator::close(PeerNumber number) {
  loop_.post([this, number] {
    peers_.erase(number);
    keep_time();
  });
}

void Coordinator::send(Peer& peer, FrameKind kind, Fields fields) {
  assert_that(peer.session.has_value(), "only a peer that is no stranger is sent frames");
  peer.outbox.push_back({kind, std::move(fields)});
  send_what_fits(peer);
}

void Coordinator::send_what_fits(Peer& peer) {
  while (!peer.outbox.empty() && peer.connection->unsent_bytes() < kUnsentBytes) {
    const Unsealed frame = std::move(peer.outbox.front());
    peer.outbox.pop_front();
    peer.connection->send(peer.session->seal(frame.kind, *frame.fields));
  }
}

void Coordinator::broadcast(FrameKind kind, std::string fields) {
  const auto shared = std::make_shared<const std::string>(std::move(fields));
  for (auto& [number, peer] : peers_) {
    if (peer.session && seated(number, peer)) send(peer, kind, shared);
  }
}

std::vector<Coordinator::Fields> Coordinator::parts_of(const std::vector<std::string>& blobs) {
  std::vector<Fields> parts;
  for (std::size_t next = 0; next < blobs.size();) {
    Encoder part;
    part.number(static_cast<Rank>(next));
    std::size_t bytes = 0;
    for (; next < blobs.size() && bytes < kPartBytes; ++next) {
      part.text(blobs[next]);
      bytes += blobs[next].size() + sizeof(std::uint16_t);
    }
    parts.push_back(std::make_shared<const std::string>(part.take()));
  }
  return parts;
}

// The timer runs only while a peer shakes hands, a member waits for others, or another host may fall silent.
void Coordinator::keep_time() {
  const bool wanted = strangers() != 0 || due_ || (!net::is_host_local(address_) && !peers_.empty());
  if (wanted == ticking_) return;
  ticking_ = wanted;
  loop_.tick(wanted ? kBeatInterval : std::chrono::milliseconds(0), [this] { on_tick(); });
}

void Coordinator::on_tick() {
  const auto now = net::SetupClock::now();
  if (due_ && now > *due_) fail_exchange(absentees() + " did not take part in time");
  for (auto& [number, peer] : peers_) {
    if (!peer.session) {
      if (now - peer.came > time_limits::kHandshake) refuse(number, "it did not finish the handshake in time");
    } else if (!net::is_host_local(address_) && seated(number, peer)) {
      if (++peer.beats_since_heard > kSilentBeats)
        unseat(peer.rank, Loss::evicted);
      else
        peer.connection->send(peer.session->seal(FrameKind::beat));
    }
  }
}

}  // namespace farside::team
