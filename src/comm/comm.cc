#include "farside/comm/comm.h"

#include <atomic>
#include <utility>
#include <vector>

#include "farside/base/error.h"

#include "base/assert.h"
#include "comm/carry.h"
#include "comm/copies.h"
#include "comm/service.h"

namespace farside::comm {

namespace {

using team::Rank;

/// Gives `notice` once all that was written to `written` is visible there.
Ended finish(Channel& channel, Rank written, const Notice& notice, Deadline deadline) {
  if (target_of(notice) != written) {  // otherwise the signal itself sees to it
    const Outcome flushed = channel.flush(written, deadline);
    if (flushed != Outcome::done) return ended_with(flushed, written);
  }
  return give(channel, notice, deadline);
}

void check_length(RemoteSpan remote, LocalSpan local) {
  if (remote.bytes == local.bytes()) [[likely]]
    return;
  throw UsageError({"copy", std::to_string(remote.bytes) + " bytes of region " + remote.region->name(),
                    "the buffer has " + std::to_string(local.bytes()), "give both the same length"});
}

}  // namespace

class Comm::Impl {
 public:
  explicit Impl(team::Team& of) : team(of), counts(of.size()), service(of) {}

  void count(Rank rank, std::uint64_t bytes) {
    counts[rank].operations.fetch_add(1, std::memory_order_relaxed);
    counts[rank].bytes.fetch_add(bytes, std::memory_order_relaxed);
  }

  /// Here and now where that costs little, else in the background.
  template <class Act>
  Request act(Channel& channel, bool at_once, Act act) {
    if (!at_once) return service.issue(channel, std::move(act));
    const std::optional<Ended> ended = act(channel, Deadline{});
    assert_that(ended.has_value(), "nothing waits of what is done here and now");
    if (ended->done()) return {};
    return service.issue(channel, [ended](Channel&, Deadline) { return ended; });
  }

  [[nodiscard]] bool small_and_near(std::uint64_t bytes, Rank a, Rank b) const {
    return bytes <= kInlineBytes && team.fabric().reaches_by_memory(a) && team.fabric().reaches_by_memory(b);
  }

  Request transfer(Channel& channel, Copy copy) {
    bool near = true;
    const auto note = [&](Rank rank) { near = near && team.fabric().reaches_by_memory(rank); };
    for (const Part& part : copy.parts) check_length(part.remote, part.local);
    for (const Part& part : copy.parts) {
      count(part.remote.region->peer(), part.remote.bytes);
      note(part.remote.region->peer());
    }
    if (const std::optional<Rank> told = target_of(copy.notice)) note(*told);
    if (!near || copy.bytes() > kInlineBytes) return service.issue(channel, std::move(copy));
    return act(channel, true, [&](Channel& by, Deadline deadline) {
      return make_copies(by, {&copy, 1}, [deadline] { return deadline; }).ended.front();
    });
  }

  /// The traffic to one rank; on a cache line of its own, since any thread counts.
  struct alignas(64) Count {
    std::atomic<std::uint64_t> operations = 0;
    std::atomic<std::uint64_t> bytes = 0;
  };

  team::Team& team;
  std::vector<Count> counts;  ///< by rank
  std::uint64_t names = 0;    ///< given out; by collective calls, so by one at a time
  Service service;
};

Comm::Comm(team::Team& team) : impl_(std::make_unique<Impl>(team)) {}
Comm::~Comm() = default;

team::Team& Comm::team() const noexcept { return impl_->team; }

std::string Comm::next_name(const std::string& what) { return what + " " + std::to_string(++impl_->names); }

Request Comm::put(Channel& channel, RemoteSpan to, LocalSpan from, Notice notice) {
  check_length(to, from);
  const Rank peer = to.region->peer();
  impl_->count(peer, to.bytes);
  if (!impl_->small_and_near(to.bytes, peer, target_of(notice).value_or(peer))) {
    return impl_->service.issue(channel, Copy{Copy::Kind::put, {{to, from}}, notice});
  }
  return impl_->act(channel, true, [=](Channel& by, Deadline deadline) {
    const Outcome written = by.write(to, from, deadline);
    return written == Outcome::done ? finish(by, peer, notice, deadline) : ended_with(written, peer);
  });
}

Request Comm::get(Channel& channel, LocalSpan into, RemoteSpan from) {
  check_length(from, into);
  const Rank peer = from.region->peer();
  impl_->count(peer, from.bytes);
  if (!impl_->small_and_near(from.bytes, peer, peer)) {
    return impl_->service.issue(channel, Copy{Copy::Kind::get, {{from, into}}, {}});
  }
  return impl_->act(channel, true,
                    [=](Channel& by, Deadline deadline) { return ended_with(by.read(into, from, deadline), peer); });
}

Request Comm::copy(Channel& channel, RemoteSpan to, RemoteSpan from, Notice notice) {
  if (to.bytes != from.bytes) {
    throw UsageError({"copy", std::to_string(from.bytes) + " bytes of region " + from.region->name(),
                      "its destination has " + std::to_string(to.bytes), "give both the same length"});
  }
  const Rank peer = to.region->peer();
  impl_->count(from.region->peer(), from.bytes);
  impl_->count(peer, to.bytes);
  const NextDeadline next = [this] { return next_deadline(); };
  const auto act = [=](Channel& by, Deadline /*deadline*/) {
    const Ended carried = carry(by, {&to, 1}, from, next);
    return carried.done() ? finish(by, peer, notice, next()) : carried;
  };
  const bool near = impl_->small_and_near(to.bytes, peer, from.region->peer());
  return impl_->act(channel, near && impl_->small_and_near(0, peer, target_of(notice).value_or(peer)), act);
}

Request Comm::notify(Channel& channel, Notice notice) {
  const auto act = [=](Channel& by, Deadline deadline) { return give(by, notice, deadline); };
  const Rank self = impl_->team.rank();
  impl_->count(target_of(notice).value_or(self), 8);
  return impl_->act(channel, impl_->small_and_near(0, self, target_of(notice).value_or(self)), act);
}

Request Comm::put(Channel& channel, std::vector<Part> parts, Notice notice) {
  return impl_->transfer(channel, {Copy::Kind::put, std::move(parts), notice});
}

Request Comm::get(Channel& channel, std::vector<Part> parts) {
  return impl_->transfer(channel, {Copy::Kind::get, std::move(parts), {}});
}

Old<std::uint64_t> Comm::fetch_add_bits(Channel& channel, RemoteWord<AtomicWord> word, std::uint64_t addend,
                                        Deadline deadline) {
  impl_->count(word.region->peer(), 8);
  const Fetched old = channel.fetch_add(word, addend, deadline);
  return {ended_with(old.outcome, word.region->peer()), old.value};
}

Old<std::uint64_t> Comm::fetch_update_bits(Channel& channel, RemoteWord<AtomicWord> word,
                                           const std::function<std::uint64_t(std::uint64_t)>& update,
                                           Deadline deadline) {
  const Rank peer = word.region->peer();
  impl_->count(peer, 8);
  Fetched seen = channel.load(word, deadline);
  while (seen.done()) {
    const Fetched found = channel.compare_swap(word, seen.value, update(seen.value), deadline);
    if (!found.done() || found.value == seen.value) return {ended_with(found.outcome, peer), found.value};
    seen = found;
    if (impl_->team.fabric().now() >= deadline.at) seen.outcome = Outcome::timed_out;
  }
  return {ended_with(seen.outcome, peer), 0};
}

Traffic Comm::traffic(Rank rank) const {
  if (rank >= impl_->counts.size()) {
    throw UsageError({"look at the traffic with", "rank " + std::to_string(rank),
                      "there are " + std::to_string(impl_->counts.size()) + " ranks", ""});
  }
  const Impl::Count& count = impl_->counts[rank];
  return {count.operations.load(std::memory_order_relaxed), count.bytes.load(std::memory_order_relaxed)};
}

Request Comm::issued(const Request& since) const { return {since.last + 1, impl_->service.issued()}; }

bool Comm::finished(const Request& request) const { return impl_->service.finished(request); }

Ended Comm::wait(Channel& channel, const Request& request, Deadline deadline) const {
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
