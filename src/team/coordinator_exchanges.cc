// The coordinator's exchanges (docs/protocols/team.md): each member gives a blob, and gets those of all.
#include <algorithm>
#include <memory>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/wire.h"
#include "team/coordinator.h"

namespace farside::team {

using net::FrameKind;

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
  const auto& complete = membership_.state().exchanges;
  if (membership_.is_formed() && !membership_.is_present(rank)) return repeat(rank, number, std::move(blob));
  if (number < complete.size()) {  // it lost the coordinator before it had the result
    send_result(rank, number, complete[number]);
    return {};
  }
  if (seat.blob == blob && number == complete.size()) return {};  // it was not sure that this one had come
  if (number != complete.size() || seat.blob) return "it contributes out of turn";
  // It has given up when it hears of the change, and contributes again if it likes.
  if (epoch != membership_.state().epoch) return {};
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
  Exchanged exchanged;
  for (Seat& seat : seats_) {
    assert_that(seat.blob.has_value(), "an exchange is complete when every rank has contributed");
    exchanged.blobs.push_back(*std::exchange(seat.blob, std::nullopt));
  }
  due_.reset();
  if (!decide(std::move(exchanged))) return;
  const std::vector<SharedFields> parts = parts_of(static_cast<std::uint32_t>(membership_.state().exchanges.size() - 1),
                                                   membership_.state().exchanges.back());
  for (auto& [number, peer] : peers_) {
    if (!peer.session || !seated(number, peer)) continue;
    for (const SharedFields& part : parts) peer.send(FrameKind::gathered, part);
  }
}

void Coordinator::send_result(Rank rank, std::uint32_t number, const std::vector<std::string>& blobs) {
  Peer& peer = peers_.at(*seats_[rank].holder);
  for (SharedFields& part : parts_of(number, blobs)) peer.send(FrameKind::gathered, std::move(part));
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
    if (membership_.is_formed()) return;
    seats_.at(rank).missed = how;
    if (due_) fail_exchange("rank " + std::to_string(rank) + " " + how + " and never joined");
  });
}

// The successor of a lost rank takes part in the exchanges that it missed. The others do not wait for it: what they
// gave is known, and they get what it gives all at once, with its last exchange.
Coordinator::Refusal Coordinator::repeat(Rank rank, std::uint32_t number, std::string blob) {
  Seat& seat = seats_[rank];
  if (number != seat.repeated.size()) return "it contributes out of turn";
  const auto& complete = membership_.state().exchanges;
  assert_that(number < complete.size(), "a rank that repeats exchanges lacks one that is complete");
  seat.repeated.push_back(std::move(blob));
  std::vector<std::string> blobs = complete[number];
  blobs[rank] = seat.repeated.back();
  if (seat.repeated.size() == complete.size()) {
    if (!decide(Returned{rank, std::exchange(seat.repeated, {})})) return {};
    tell_of_change();
  }
  send_result(rank, number, blobs);
  return {};
}

}  // namespace farside::team
