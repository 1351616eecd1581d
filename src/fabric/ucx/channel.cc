#include "fabric/ucx/channel.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "farside/base/log.h"

#include "base/assert.h"
#include "fabric/clock.h"
#include "fabric/time_limits.h"
#include "fabric/ucx/link.h"

namespace farside {

namespace {

using namespace std::chrono_literals;

// An answer over a fast network, or its next piece, comes within this time; after it the waiter sleeps. It yields all
// along: the process that is to answer may need this core.
constexpr Duration kSpin = 20us;

// Between two looks where UCX's event descriptor is of no use.
constexpr Duration kNap = 200us;

const UcxAccess& access_of(const Operation& operation) {
  return static_cast<const UcxAccess&>(*operation.region->access());
}

}  // namespace

// ---- Operations

UcxChannel::UcxChannel(const UcxContext& context, const UcxCredentials& self, UcxChannelSet& siblings)
    : context_(context), self_(self), siblings_(siblings), number_(siblings.next_number()) {}

UcxChannel::~UcxChannel() {
  std::vector<PeerId> peers;
  for (const auto& [peer, link] : links_) peers.push_back(peer);
  const Deadline parting{monotonic_now() + fabric::time_limits::kParting};
  for (const PeerId peer : peers) (void)flush(peer, parting);
  while (!links_.empty()) end(std::move(links_.extract(links_.begin()).mapped()), Outcome::link_lost);
  siblings_.remove(*this);  // a flush may have opened a worker and added it
  assert_that(awaited_.empty(), "nothing awaits a result once all links have ended");
  // The worker makes no more progress, so it does not see a peer that connects back.
  for (const auto& link : unanswered_) link->endpoint.close();
}

void UcxChannel::post(const Operation& operation, Completion& completion) {
  if (operation.bytes == 0) return;
  assert_in_tests(
      operation.offset <= operation.region->bytes() && operation.bytes <= operation.region->bytes() - operation.offset,
      "an operation is within its region");
  const std::shared_ptr<UcxPeer>& peer = access_of(operation).peer();
  if (peer->lost) return completion.record(Outcome::peer_lost);
  if (attention_) attend();
  if (!spoiled_.empty() && comes_after_lost_writes(peer, completion)) return;
  Link& link = link_to(peer);
  if (link.takes_operations()) return submit(link, operation, completion);
  ++completion.pending;
  link.deferred.push_back({operation, &completion});
}

// Every operation is refused until the caller has waited for one that was, and then those of a batch of which another
// was refused before.
bool UcxChannel::comes_after_lost_writes(const std::shared_ptr<UcxPeer>& peer, Completion& completion) {
  const auto found = spoiled_.find(peer->id);
  if (found == spoiled_.end() || found->second.peer != peer) return false;
  const Spoiled& spoiled = found->second;
  const bool was_refused = std::ranges::any_of(
      refused_, [&](const Refused& each) { return each.completion == &completion && each.peer == peer; });
  if ((spoiled.told & kOperation) != 0 && !was_refused) return false;
  completion.record(spoiled.peer->lost ? Outcome::peer_lost : spoiled.outcome);
  if (was_refused) return true;
  refused_.push_back({&completion, peer});
  ++completion.pending;
  return true;
}

void UcxChannel::tell_refused(Completion& completion) {
  std::erase_if(refused_, [&](const Refused& each) {
    if (each.completion != &completion) return false;
    --completion.pending;
    const auto found = spoiled_.find(each.peer->id);
    if (found != spoiled_.end() && found->second.peer == each.peer) found->second.told |= kOperation;
    return true;
  });
}

void UcxChannel::submit(Link& link, const Operation& operation, Completion& completion) {
  assert_that(link.welcome, "a channel posts to a peer only once it was welcomed");
  const std::shared_ptr<const UcxRemoteMemory>& memory = access_of(operation).memory();
  if (operation.kind == Operation::Kind::write) {
    link.unflushed = memory;
    link.unflushed_address = memory->base + operation.offset;
    link.unflushed_bytes = operation.bytes;
  }
  const std::uint64_t address = memory->base + operation.offset;
  if (operation.is_atomic() || context_.in_order()) return ask(link, operation, address, completion);

  const ucp_rkey_h key = link.key_of(memory);
  if (key == nullptr) {
    link.fail(Outcome::link_lost);
    return completion.record(Outcome::link_lost);
  }
  const ucp_ep_h to = link.endpoint.get();
  track(link, completion, [&](ucp_request_param_t& params) {
    return operation.kind == Operation::Kind::read
               ? ucp_get_nbx(to, operation.local, operation.bytes, address, key, &params)
               : ucp_put_nbx(to, operation.local, operation.bytes, address, key, &params);
  });
}

void UcxChannel::on_done(void* request, ucs_status_t status, void* pending) {
  Pending& done = *static_cast<Pending*>(pending);
  done.link->channel.settle(done, status);
  ucp_request_free(request);
}

void UcxChannel::settle(Pending& pending, ucs_status_t status) {
  Link& link = *pending.link;
  assert_that(link.under_way != 0 && (!pending.is_atomic || link.atomics_under_way != 0),
              "what ends was counted as under way");
  assert_that(pending.completion->pending != 0, "what ends is a part of its completion");
  if (pending.unread != 0) awaited_.erase(pending.message.ticket);
  --link.under_way;
  link.atomics_under_way -= pending.is_atomic ? 1 : 0;
  if (status != UCS_OK) {
    link.atomic_failed = link.atomic_failed || pending.is_atomic;
    link.fail();  // UCX may have had no memory for it, with the connection sound. But it is not known how much was sent
    if (!link.ended) return link.unexplained.splice(link.unexplained.end(), under_way_, pending.self);
    pending.completion->record(link.peer->lost ? Outcome::peer_lost : *link.ended);
  }
  --pending.completion->pending;
  spare_.splice(spare_.begin(), under_way_, pending.self);
}

// ---- Waiting

void UcxChannel::alarm() {
  assert_that(worker_.has_value(), "a channel among its siblings has a worker");
  attention_ = true;
  worker_->signal();
}

bool UcxChannel::progress() {
  const bool moved = worker_ && worker_->progress();
  if (attention_) attend();
  return moved;
}

void UcxChannel::attend() {
  attention_ = false;
  if (std::exchange(renews_worker_, false)) drop_worker(nullptr);
  std::vector<PeerId> gone;  // by number: ending one may end all (drop_worker)
  for (const auto& [peer, entry] : links_) {
    Link& link = *entry;
    if (link.failed && !link.is_explained()) {
      attention_ = true;
      continue;
    }
    if (link.failed || link.peer->lost) {
      gone.push_back(peer);
      continue;
    }
    if (!link.endpoint) {
      open(link);
    } else if (!link.hello_posted) {
      send_hello(link);
    }
    if (!link.takes_operations()) continue;
    for (const Link::Deferred& deferred : std::exchange(link.deferred, {})) {
      submit(link, deferred.operation, *deferred.completion);
      --deferred.completion->pending;
    }
  }
  for (const PeerId peer : gone) {
    if (find(peer) != nullptr) end_failed(std::move(links_.extract(peer).mapped()));
  }
  drop_answered();
}

template <class Predicate>
bool UcxChannel::wait(Predicate&& holds, Deadline deadline) {
  Time awake_until = monotonic_now() + kSpin;
  const Time give_up = std::max(deadline.at, awake_until);
  while (!holds()) {
    const bool moved = progress();
    const Time now = monotonic_now();
    if (moved) {
      awake_until = now + kSpin;  // and look again at once: a long answer comes in many pieces
    } else if (now < awake_until) {
      std::this_thread::yield();
    } else if (attention_ || !worker_) {  // a connection is not up yet: UCX says all the time that it can be written to
      std::this_thread::sleep_for(kNap);
    } else if (worker_->arm() && !progress() && !attention_ && !holds()) {  // progress may have ended links by itself
      worker_->sleep(deadline);
    }
    if (now >= give_up) return holds();
  }
  return true;
}

void UcxChannel::finish(Completion& completion, Deadline deadline) {
  if (!refused_.empty()) tell_refused(completion);
  if (!wait([&] { return completion.pending == 0; }, deadline)) abandon(completion);
}

void UcxChannel::abandon(Completion& completion) {
  std::set<Link*> involved;
  for (const Pending& pending : under_way_) {
    if (pending.completion == &completion) involved.insert(pending.link);
  }
  for (const auto& entry : links_) {
    Link& link = *entry.second;
    const auto is_of_it = [&](const Pending& failed) { return failed.completion == &completion; };
    if (std::ranges::any_of(link.unexplained, is_of_it)) involved.insert(&link);
    std::erase_if(link.deferred, [&](const Link::Deferred& deferred) {
      if (deferred.completion != &completion) return false;
      completion.record(Outcome::timed_out);
      --completion.pending;
      if (deferred.operation.kind == Operation::Kind::write) spoil(link.peer, Outcome::timed_out, kOperation);
      return true;
    });
  }
  // By number: ending one may end all (drop_worker).
  std::vector<PeerId> peers;
  peers.reserve(involved.size());
  for (const Link* link : involved) peers.push_back(link->peer->id);
  for (const PeerId peer : peers) {
    const Link* const link = find(peer);
    if (link == nullptr) continue;
    const Outcome why = link->failed ? link->explanation() : Outcome::timed_out;
    end(std::move(links_.extract(peer).mapped()), why);
  }
  const auto is_of_it = [&](const Pending& pending) { return pending.completion == &completion; };
  assert_that(std::ranges::none_of(under_way_, is_of_it), "nothing that was abandoned is under way");
}

Outcome UcxChannel::fence(PeerId peer, Deadline deadline) {
  if (attention_) attend();
  const auto is_quiet = [&] {
    const Link* const link = find(peer);
    return link == nullptr || link->quiet();
  };
  if (!wait(is_quiet, deadline)) return Outcome::timed_out;
  Completion flushed;
  if (Link* const link = find(peer); link != nullptr && link->unflushed != nullptr && !context_.in_order()) {
    flush_endpoint(*link, flushed);  // WRITEs may go by another way than what follows, and only a flush orders the ways
    finish(flushed, deadline);
    if (!wait(is_quiet, deadline)) return Outcome::timed_out;
  }
  const Outcome outcome = verdict(peer, flushed.outcome, kFence, deadline);
  if (Link* const link = find(peer); link != nullptr && outcome == Outcome::done) {
    link->fenced = link->unflushed != nullptr;
  }
  return outcome;
}

Outcome UcxChannel::flush(PeerId peer, Deadline deadline) {
  return flush(std::span(&peer, 1), kFlush, deadline).front();
}

Outcome UcxChannel::flush_all(Deadline deadline) {
  if (attention_) attend();
  std::set<PeerId> written;
  for (const auto& [peer, link] : links_) {
    if (link->unflushed != nullptr || !link->quiet()) written.insert(peer);
  }
  for (const auto& [peer, spoiled] : spoiled_) written.insert(peer);
  Outcome all = Outcome::done;
  for (const Outcome flushed : flush(std::vector<PeerId>(written.begin(), written.end()), kFlush, deadline)) {
    all = graver(all, flushed);
  }
  return all;
}

std::vector<Outcome> UcxChannel::flush(std::span<const PeerId> peers, Report report, Deadline deadline) {
  if (attention_) attend();
  std::vector<Flush> flushes(peers.size());  // none of them moves while UCX knows it
  for (std::size_t i = 0; i < peers.size(); ++i) flushes[i].peer = peers[i];
  flush_links(flushes, deadline);

  // A loss that is reported once is reported for all that is asked about that peer now.
  std::map<PeerId, Outcome> verdicts;
  std::vector<Outcome> outcomes;
  outcomes.reserve(flushes.size());
  for (const Flush& flush : flushes) {
    const auto [of_peer, is_first] = verdicts.try_emplace(flush.peer);
    if (is_first) of_peer->second = verdict(flush.peer, flush.completion.outcome, report, deadline);
    outcomes.push_back(of_peer->second);
  }
  return outcomes;
}

Outcome UcxChannel::verdict(PeerId peer, Outcome flushed, Report report, Deadline deadline) {
  const auto found = spoiled_.find(peer);
  if (found == spoiled_.end()) return flushed;
  Spoiled& spoiled = found->second;
  if ((spoiled.told & report) == 0) {
    spoiled.told |= report | kOperation;  // the caller knows now what came before its next operation
    return spoiled.peer->lost ? Outcome::peer_lost : spoiled.outcome;
  }
  if (flushed != Outcome::done) return flushed;
  if (!old_link_is_closed(spoiled.peer, deadline)) return Outcome::timed_out;
  // A link that was lost while this waited has spoiled more.
  const bool all_said = report == kFlush && (spoiled_.at(peer).told & report) != 0;
  if (all_said) spoiled_.erase(peer);
  return flushed;
}

// The peer closes its end of a channel's link before it welcomes the next one. A lost peer may still use it; to
// prevent harm from that is up to the caller of mark_lost.
bool UcxChannel::old_link_is_closed(std::shared_ptr<UcxPeer> peer, Deadline deadline) {
  return wait([&] { return peer->lost || link_to(peer).takes_operations(); }, deadline);
}

void UcxChannel::await_quiet(std::span<Flush> flushes, Deadline deadline) {
  const auto is_quiet = [this](const Flush& flush) {
    const Link* const link = find(flush.peer);
    return link == nullptr || link->quiet();
  };
  (void)wait([&] { return std::ranges::all_of(flushes, is_quiet); }, deadline);
  for (Flush& flush : flushes) {
    if (!is_quiet(flush)) flush.completion.record(Outcome::timed_out);
  }
}

void UcxChannel::flush_links(std::span<Flush> flushes, Deadline deadline) {
  await_quiet(flushes, deadline);
  for (Flush& flush : flushes) {
    if (const Link* const link = find(flush.peer)) flush.link = link->number;
  }
  // UCX may report success when the endpoint failed meanwhile, but then the link is gone, and spoiled_ says why.
  const auto on_each_link = [&](auto act) {
    for (Flush& flush : flushes) {
      Link* const link = find(flush.peer);
      if (link == nullptr || link->number != flush.link || link->unflushed == nullptr) continue;
      if (flush.completion.outcome == Outcome::done) act(*link, flush.completion);
    }
  };
  const auto finish_all = [&] {
    for (Flush& flush : flushes) finish(flush.completion, deadline);
  };

  // A NIC acknowledges before its writes are in memory, where a READ pushes them. Where everything goes through one
  // stream to a CPU, the answer to that READ alone says that the CPU has stored what came before.
  if (!context_.in_order()) {
    on_each_link([this](Link& link, Completion& completion) { flush_endpoint(link, completion); });
    finish_all();
  }
  on_each_link([this](Link& link, Completion& completion) { read_back(link, completion); });
  finish_all();
  await_quiet(flushes, deadline);
  on_each_link([](Link& link, Completion& /*completion*/) {
    link.unflushed.reset();
    link.fenced = false;
  });
}

void UcxChannel::flush_endpoint(Link& link, Completion& completion) {
  track(link, completion, [&](ucp_request_param_t& params) { return ucp_ep_flush_nbx(link.endpoint.get(), &params); });
}

void UcxChannel::read_back(Link& link, Completion& completion) {
  const std::uint64_t bytes = std::min<std::uint64_t>(sizeof read_back_, link.unflushed_bytes);
  if (context_.in_order()) {
    const Operation read{Operation::Kind::read, nullptr, 0, reinterpret_cast<std::byte*>(&read_back_), bytes, 0, 0};
    return ask(link, read, link.unflushed_address, completion);
  }
  track(link, completion, [&](ucp_request_param_t& params) {
    return ucp_get_nbx(link.endpoint.get(), &read_back_, bytes, link.unflushed_address, link.key_of(link.unflushed),
                       &params);
  });
}

}  // namespace farside
