#include "farside/comm/comm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "farside/base/error.h"

#include "comm/service.h"

namespace farside {

namespace {

constexpr std::uint64_t kPieceBytes = 256U << 10U;  // of a copy between two others

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};

/// Whom a notice is for.
std::optional<Rank> target_of(const Notice& notice) {
  return std::visit(Match{[](const NoNotice&) { return std::optional<Rank>(); },
                          [](const auto& told) { return std::optional<Rank>(told.word.region->peer()); }},
                    notice);
}

Ended give(Channel& channel, const Notice& notice, Deadline deadline) {
  return std::visit(
      Match{[](const NoNotice&) { return Ended{}; },
            [&](const SetWord& set) {
              return ended_with(channel.write_signal(set.word, set.value, deadline), set.word.region->peer());
            },
            [&](const AddToWord& add) {
              return ended_with(channel.add_signal(add.word, add.addend, deadline).outcome, add.word.region->peer());
            }},
      notice);
}

/// Gives `notice` once all that was written to `written` is visible there.
Ended finish(Channel& channel, Rank written, const Notice& notice, Deadline deadline) {
  if (target_of(notice) != written) {  // otherwise the signal itself sees to it
    const Outcome flushed = channel.flush(written, deadline);
    if (flushed != Outcome::done) return ended_with(flushed, written);
  }
  return give(channel, notice, deadline);
}

/// By way of this process: READ a piece, WRITE it, and so on.
Ended carry(Channel& channel, RemoteSpan to, RemoteSpan from, Deadline deadline) {
  std::vector<std::byte> piece(std::min(from.bytes, kPieceBytes));
  for (std::uint64_t at = 0; at < from.bytes; at += piece.size()) {
    const std::uint64_t bytes = std::min<std::uint64_t>(piece.size(), from.bytes - at);
    const LocalSpan buffer(piece.data(), bytes);
    const Outcome read = channel.read(buffer, from.region->span(from.offset + at, bytes), deadline);
    if (read != Outcome::done) return ended_with(read, from.region->peer());
    const Outcome written = channel.write(to.region->span(to.offset + at, bytes), buffer, deadline);
    if (written != Outcome::done) return ended_with(written, to.region->peer());
  }
  return {};
}

}  // namespace

class Comm::Impl {
 public:
  explicit Impl(Team& of) : team(of), service(of) {}

  /// Here and now where that costs little, else in the background.
  template <class Act>
  Request act(Channel& channel, bool at_once, Act act) {
    if (!at_once) return {service.issue(channel, std::move(act))};
    const Ended ended = act(channel, Deadline{});  // nothing of it waits
    if (ended.done()) return {};
    return {service.issue(channel, [ended](Channel&, Deadline) { return ended; })};
  }

  [[nodiscard]] bool small_and_near(std::uint64_t bytes, Rank a, Rank b) const {
    return bytes <= kInlineBytes && team.fabric().reaches_by_memory(a) && team.fabric().reaches_by_memory(b);
  }

  Team& team;
  std::uint64_t names = 0;  ///< given out; by collective calls, so by one at a time
  Service service;
};

Comm::Comm(Team& team) : impl_(std::make_unique<Impl>(team)) {}
Comm::~Comm() = default;

Team& Comm::team() const noexcept { return impl_->team; }

std::string Comm::next_name(const std::string& what) { return what + " " + std::to_string(++impl_->names); }

Request Comm::put(Channel& channel, RemoteSpan to, LocalSpan from, Notice notice) {
  const Rank peer = to.region->peer();
  const auto act = [=](Channel& by, Deadline deadline) {
    const Outcome written = by.write(to, from, deadline);
    return written == Outcome::done ? finish(by, peer, notice, deadline) : ended_with(written, peer);
  };
  return impl_->act(channel, impl_->small_and_near(to.bytes, peer, target_of(notice).value_or(peer)), act);
}

Request Comm::get(Channel& channel, LocalSpan into, RemoteSpan from) {
  const Rank peer = from.region->peer();
  const auto act = [=](Channel& by, Deadline deadline) { return ended_with(by.read(into, from, deadline), peer); };
  return impl_->act(channel, impl_->small_and_near(from.bytes, peer, peer), act);
}

Request Comm::copy(Channel& channel, RemoteSpan to, RemoteSpan from, Notice notice) {
  if (to.bytes != from.bytes) {
    throw UsageError({"copy", std::to_string(from.bytes) + " bytes of region " + from.region->name(),
                      "its destination has " + std::to_string(to.bytes), "give both the same length"});
  }
  const Rank peer = to.region->peer();
  const auto act = [=](Channel& by, Deadline deadline) {
    const Ended carried = carry(by, to, from, deadline);
    return carried.done() ? finish(by, peer, notice, deadline) : carried;
  };
  const bool near = impl_->small_and_near(to.bytes, peer, from.region->peer());
  return impl_->act(channel, near && impl_->small_and_near(0, peer, target_of(notice).value_or(peer)), act);
}

Request Comm::notify(Channel& channel, Notice notice) {
  const auto act = [=](Channel& by, Deadline deadline) { return give(by, notice, deadline); };
  const Rank self = impl_->team.rank();
  return impl_->act(channel, impl_->small_and_near(0, self, target_of(notice).value_or(self)), act);
}

Request Comm::issued() const { return {impl_->service.issued()}; }

bool Comm::finished(Request request) const { return impl_->service.finished(request.number); }

Ended Comm::wait(Channel& channel, Request request, Deadline deadline) const {
  return impl_->service.wait(channel, request.number, deadline);
}

Request Comm::in_background(Channel& channel, Task task) { return {impl_->service.issue(channel, std::move(task))}; }

bool Comm::may_act_at_once(Rank rank) const {
  return finished(issued()) && impl_->team.fabric().reaches_by_memory(rank);
}

void Comm::on_ring(std::function<void(Channel&)> work) { impl_->service.on_ring(std::move(work)); }

Outcome Comm::ring(Channel& channel, Rank rank, Deadline deadline) const {
  return impl_->service.ring(channel, rank, deadline);
}

}  // namespace farside
