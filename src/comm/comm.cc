#include "farside/comm/comm.h"

#include <utility>
#include <vector>

#include "farside/base/error.h"

#include "base/assert.h"
#include "comm/carry.h"
#include "comm/copies.h"
#include "comm/service.h"
#include "comm/traffic_counts.h"

namespace farside::comm {

namespace {

using team::Rank;

/// Gives `notice` once all that was written to `written` is visible there.
Status finish(Channel& channel, Rank written, const Notice& notice, Deadline deadline) {
  if (target_of(notice) != written) {  // otherwise the signal itself sees to it
    const Outcome flushed = channel.flush(written, deadline);
    if (flushed != Outcome::done) return status_with(flushed, written);
  }
  return give(channel, notice, deadline);
}

/// Transfers there are made by the caller.
bool is_small_and_mapped(const RemoteSpan& span) { return span.bytes <= Comm::kInlineBytes && is_mapped(*span.region); }

[[gnu::noinline]] void refuse_length(const RemoteSpan& remote, LocalSpan local) {
  throw UsageError({"copy", std::to_string(remote.bytes) + " bytes of region " + remote.region->name(),
                    "the buffer has " + std::to_string(local.bytes()), "give both the same length"});
}

void check_length(const RemoteSpan& remote, LocalSpan local) {
  if (remote.bytes != local.bytes()) [[unlikely]]
    refuse_length(remote, local);
}

}  // namespace

class Comm::Impl {
 public:
  explicit Impl(team::Team& of) : team(of), counts(of.size()), service(of) {}

  // Apart, so that what the caller makes itself has a small frame.
  [[gnu::noinline]] Request issue(Channel& channel, Copy::Kind kind, const Part& part, const Notice& notice) {
    return service.issue(channel, Copy{kind, {part}, notice});
  }

  /// Returns the request of an operation that the caller has made itself. A failure goes to the waiters.
  [[gnu::noinline]] Request made_here(Channel& channel, const Status& status) {
    if (status.done()) [[likely]]
      return {};
    return service.issue(channel, [status](Channel&, Deadline) { return std::optional(status); });
  }

  [[gnu::noinline]] Request give_here(Channel& channel, Rank written, const Notice& notice) {
    return made_here(channel, finish(channel, written, notice, Deadline{}));
  }

  /// Here and now where that costs little, else in the background.
  template <class Act>
  Request act(Channel& channel, bool at_once, Act act) {
    if (!at_once) return service.issue(channel, std::move(act));
    const std::optional<Status> status = act(channel, Deadline{});
    assert_that(status.has_value(), "nothing waits of what is done here and now");
    return made_here(channel, *status);
  }

  Request transfer(Channel& channel, Copy copy) {
    for (const Part& part : copy.parts) check_length(part.remote, part.local);
    bool all_mapped = is_mapped(copy.notice);
    for (const Part& part : copy.parts) {
      const Rank peer = part.remote.region->peer();
      counts.add(peer, part.remote.bytes);
      all_mapped = all_mapped && is_mapped(*part.remote.region) && team.fabric().reaches_by_memory(peer);
    }
    if (!all_mapped || copy.bytes() > kInlineBytes) return service.issue(channel, std::move(copy));
    return made_here(channel, make_copies(channel, {&copy, 1}, [] { return Deadline{}; }).status.front());
  }

  team::Team& team;
  TrafficCounts counts;
  std::uint64_t names = 0;  ///< given out; by collective calls, so by one at a time
  Service service;
};

Comm::Comm(team::Team& team) : impl_(std::make_unique<Impl>(team)) {}
Comm::~Comm() = default;

team::Team& Comm::team() const noexcept { return impl_->team; }

std::string Comm::next_name(const std::string& what) { return what + " " + std::to_string(++impl_->names); }

Request Comm::put(Channel& channel, const RemoteSpan& to, LocalSpan from, const Notice& notice) {
  check_length(to, from);
  const Rank peer = to.region->peer();
  impl_->counts.add(peer, to.bytes);
  if (!is_small_and_mapped(to) || !is_mapped(notice)) {
    return impl_->issue(channel, Copy::Kind::put, {to, from}, notice);
  }
  Outcome outcome = channel.write(to, from, Deadline{});
  if (outcome == Outcome::done && std::holds_alternative<NoNotice>(notice)) {
    outcome = channel.flush(peer, Deadline{});
    if (outcome == Outcome::done) [[likely]]
      return {};
  }
  if (outcome == Outcome::done) return impl_->give_here(channel, peer, notice);
  return impl_->made_here(channel, status_with(outcome, peer));
}

Request Comm::get(Channel& channel, LocalSpan into, const RemoteSpan& from) {
  check_length(from, into);
  const Rank peer = from.region->peer();
  impl_->counts.add(peer, from.bytes);
  if (!is_small_and_mapped(from)) return impl_->issue(channel, Copy::Kind::get, {from, into}, {});
  const Outcome read = channel.read(into, from, Deadline{});
  return read == Outcome::done ? Request{} : impl_->made_here(channel, status_with(read, peer));
}

Request Comm::copy(Channel& channel, RemoteSpan to, RemoteSpan from, const Notice& notice) {
  if (to.bytes != from.bytes) {
    throw UsageError({"copy", std::to_string(from.bytes) + " bytes of region " + from.region->name(),
                      "its destination has " + std::to_string(to.bytes), "give both the same length"});
  }
  const Rank peer = to.region->peer();
  impl_->counts.add(from.region->peer(), from.bytes);
  impl_->counts.add(peer, to.bytes);
  const NextDeadline next = [this] { return next_deadline(); };
  const auto act = [=](Channel& by, Deadline /*deadline*/) {
    const Status carried = carry(by, {&to, 1}, from, next);
    return carried.done() ? finish(by, peer, notice, next()) : carried;
  };
  return impl_->act(channel, is_small_and_mapped(to) && is_small_and_mapped(from) && is_mapped(notice), act);
}

Request Comm::notify(Channel& channel, const Notice& notice) {
  const auto act = [=](Channel& by, Deadline deadline) { return give(by, notice, deadline); };
  impl_->counts.add(target_of(notice).value_or(impl_->team.rank()), 8);
  return impl_->act(channel, is_mapped(notice), act);
}

Request Comm::put(Channel& channel, std::vector<Part> parts, const Notice& notice) {
  return impl_->transfer(channel, {Copy::Kind::put, std::move(parts), notice});
}

Request Comm::get(Channel& channel, std::vector<Part> parts) {
  return impl_->transfer(channel, {Copy::Kind::get, std::move(parts), {}});
}

Result<std::uint64_t, Status> Comm::fetch_add_bits(Channel& channel, RemoteWord<AtomicWord> word, std::uint64_t addend,
                                                   Deadline deadline) {
  impl_->counts.add(word.region->peer(), 8);
  const Result<std::uint64_t> old = channel.fetch_add(word, addend, deadline);
  return {status_with(old.status, word.region->peer()), old.value};
}

Result<std::uint64_t, Status> Comm::fetch_update_bits(Channel& channel, RemoteWord<AtomicWord> word,
                                                      const std::function<std::uint64_t(std::uint64_t)>& update,
                                                      Deadline deadline) {
  const Rank peer = word.region->peer();
  impl_->counts.add(peer, 8);
  Result<std::uint64_t> seen = channel.load(word, deadline);
  while (seen.done()) {
    const Result<std::uint64_t> found = channel.compare_swap(word, seen.value, update(seen.value), deadline);
    if (!found.done() || found.value == seen.value) return {status_with(found.status, peer), found.value};
    seen = found;
    if (impl_->team.fabric().now() >= deadline.at) seen.status = Outcome::timed_out;
  }
  return {status_with(seen.status, peer), 0};
}

Traffic Comm::traffic(Rank rank) const {
  if (rank >= impl_->counts.ranks()) {
    throw UsageError({"look at the traffic with", "rank " + std::to_string(rank),
                      "there are " + std::to_string(impl_->counts.ranks()) + " ranks", ""});
  }
  return impl_->counts.of(rank);
}

Request Comm::issued(const Request& since) const { return {since.last + 1, impl_->service.issued()}; }

bool Comm::finished(const Request& request) const { return impl_->service.finished(request); }

Status Comm::wait_unfinished(Channel& channel, const Request& request, Deadline deadline) const {
  return impl_->service.wait(channel, request, deadline);
}

Request Comm::in_background(Channel& channel, Task task) { return impl_->service.issue(channel, std::move(task)); }

Request Comm::act(Channel& channel, bool at_once, Task task) { return impl_->act(channel, at_once, std::move(task)); }

bool Comm::idle() const { return impl_->service.idle(); }

bool Comm::on_service_thread() const { return impl_->service.is_this_thread(); }

void Comm::check_may_wait(const char* for_what) const {
  if (on_service_thread()) impl_->service.refuse_wait(for_what);
}

Deadline Comm::next_deadline() const { return impl_->service.next_deadline(); }

void Comm::on_ring(std::function<void(Channel&)> work) { impl_->service.on_ring(std::move(work)); }

Outcome Comm::ring(Channel& channel, Rank rank, Deadline deadline) const {
  return impl_->service.ring(channel, rank, deadline);
}

}  // namespace farside::comm
