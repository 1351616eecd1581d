#include "fabric/ucx/link.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "fabric/clock.h"
#include "fabric/time_limits.h"

namespace farside {

using namespace std::chrono_literals;

ucp_rkey_h UcxChannel::Link::key_of(const std::shared_ptr<const UcxRemoteMemory>& memory) {
  const auto found = keys.find(memory.get());
  if (found != keys.end()) return found->second.key.get();
  std::erase_if(keys, [](const auto& entry) { return entry.second.memory.expired(); });
  ucp_rkey_h key = nullptr;
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint.get(), memory->packed_key.data(), &key);
  if (status != UCS_OK) {
    log::warn(std::string("cannot use a remote key of UCX: ") + ucs_status_string(status));
    return nullptr;
  }
  keys.emplace(memory.get(), UnpackedKey{memory, UcxKey(key)});
  return key;
}

void UcxChannel::Link::fail(std::optional<Outcome> reason) {
  if (!failed) failed_at = monotonic_now();
  if (!why) why = reason;
  failed = channel.attention_ = true;
}

// When a process ends, all its connections break: those of channels a moment before or after the lifeline, by which the
// engine's thread knows of the death.
bool UcxChannel::Link::is_explained() const {
  return why || peer->lost || monotonic_now() >= failed_at + channel.until_explained_;
}

// ---- A channel's links: opened, announced, answered, ended

UcxChannel::Link* UcxChannel::find(PeerId peer) {
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second.get();
}

UcxChannel::Link& UcxChannel::link_to(const std::shared_ptr<UcxPeer>& peer) {
  Link* const link = find(peer->id);
  if (link != nullptr && link->peer == peer && !(link->failed && link->is_explained())) return *link;
  if (link != nullptr) end_failed(std::move(links_.extract(peer->id).mapped()));
  const auto [entry, is_new] = links_.emplace(peer->id, std::make_unique<Link>(*this, peer));
  assert_that(is_new, "a channel has one link to a peer at a time");
  Link& made = *entry->second;
  open(made);
  return made;
}

void UcxChannel::open(Link& link) {
  const auto pause = pauses_.find(link.peer->id);
  const bool is_early =
      pause != pauses_.end() && pause->second.peer == link.peer && monotonic_now() < pause->second.end;
  if (is_early) {
    attention_ = true;
    return;
  }
  try {
    open_now(link);
  } catch (const Error& error) {
    log_.warn(error.what());
  }
  if (link.endpoint) return;
  attention_ = true;
  if (renews_worker_) return;
  link.fail(Outcome::link_lost);
}

// Throws Error when the channel's worker cannot be made.
void UcxChannel::open_now(Link& link) {
  Opened& opened = opened_[link.peer->identity];
  if (worker_ && opened.endpoints - opened.answered >= kMaxMissedHellos) {
    renews_worker_ = true;  // the peer would not believe the next number; with a new worker it begins anew
    return;
  }
  if (!worker_) {
    worker_.emplace(context_, UCS_THREAD_MODE_SINGLE);
    worker_->on_message(kAnswerMessage, &on_answer, this);
    worker_->on_message(kResultMessage, &on_result, this);
    siblings_.add(*this);
    attention_ = true;  // losses while the worker was being made were not reported to this channel
  }
  link.number = ++links_opened_;
  const std::uint64_t nth = ++opened.endpoints;
  link.hello =
      UcxHello{self_.identity, number_, link.number, nth, worker_->address()}.encode(self_.secret, link.peer->identity);
  link.endpoint = UcxEndpoint(*worker_, link.peer->service_address, &on_link_error, &link);
  if (!link.endpoint) {
    opened.is_uncertain = true;
    return log_.warn("cannot reach a peer through UCX: " + link.endpoint.why_not());
  }
  if (opened.is_uncertain) {  // now there is memory again, for a worker too
    renews_worker_ = true;
    return link.endpoint.close();
  }
  send_hello(link);
}

void UcxChannel::end_failed(std::unique_ptr<Link> link) {
  if (link->failed) note_failure(*link);
  const Outcome why = link->explanation();
  end(std::move(link), why);
}

void UcxChannel::note_failure(const Link& link) {
  const std::shared_ptr<UcxPeer>& peer = link.peer;
  Pause& pause = pauses_[peer->id];
  const Duration before = pause.peer == peer ? pause.length : Duration{};
  const Duration length =
      std::clamp<Duration>(2 * before, fabric::time_limits::kFirstLinkPause, fabric::time_limits::kMaxLinkPause);
  pause = {peer, length, monotonic_now() + length};
}

void UcxChannel::send_hello(Link& link) {
  const auto send = [&](ucp_request_param_t& params) {
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_AM_SEND_FLAG_EAGER;
    return ucp_am_send_nbx(link.endpoint.get(), kHelloMessage, nullptr, 0, link.hello.data(), link.hello.size(),
                           &params);
  };
  if (!context_.in_order()) {
    link.hello_posted = true;
    return track(link, link.hello_sent, send);
  }
  // UCX queues a message that cannot leave at once, and asks the peer to connect back to this process. The peer's
  // answer waits for that connection, and UCX 1.13 aborts the peer if this process ends before. So the peer has to ask.
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  const ucs_status_ptr_t sent = send(params);
  const ucs_status_t status = UCS_PTR_STATUS(sent);
  link.hello_posted = status == UCS_OK;
  if (status != UCS_OK && status != UCS_ERR_NO_RESOURCE) link.fail();
  if (!link.hello_posted) attention_ = true;
}

void UcxChannel::on_link_error(void* link, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {
  static_cast<Link*>(link)->fail();
}

ucs_status_t UcxChannel::on_answer(void* channel, const void* /*header*/, std::size_t /*header_bytes*/, void* message,
                                   std::size_t bytes, const ucp_am_recv_param_t* params) {
  UcxChannel& self = *static_cast<UcxChannel*>(channel);
  UcxAnswer answer{};
  if (!arrived_whole(*params) || bytes != sizeof answer) return UCS_OK;
  std::memcpy(&answer, message, sizeof answer);
  const bool paired = (params->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  const auto take = [&](Link& link) {
    if (link.number != answer.link) return;
    const bool welcome = answer.welcome != 0 && paired && params->reply_ep == link.endpoint.get();
    if (welcome) {
      link.welcome = true;
    } else {
      link.fail(answer.welcome == 0 ? Outcome::peer_lost : Outcome::link_lost);
    }
    Opened& opened = self.opened_[link.peer->identity];
    opened.answered = opened.endpoints;
    if (welcome) self.pauses_.erase(link.peer->id);
  };
  for (const auto& [peer, link] : self.links_) take(*link);
  for (const auto& link : self.unanswered_) take(*link);
  self.attention_ = true;
  return UCS_OK;
}

void UcxChannel::spoil(const std::shared_ptr<UcxPeer>& peer, Outcome outcome, std::uint8_t told) {
  Spoiled& spoiled = spoiled_.try_emplace(peer->id, Spoiled{outcome, peer, told}).first->second;
  if (told == kAllReports && spoiled.peer == peer) return;
  spoiled.outcome = outcome;
  spoiled.peer = peer;
  spoiled.told &= told;
}

void UcxChannel::write_off(Link& link, Outcome outcome) {
  const Outcome told = link.peer->lost ? Outcome::peer_lost : outcome;
  link.ended = told;
  stop_awaiting(link);
  bool wrote = link.unflushed != nullptr;
  for (const Link::Deferred& deferred : std::exchange(link.deferred, {})) {
    deferred.completion->record(told);
    --deferred.completion->pending;
    wrote = wrote || deferred.operation.kind == Operation::Kind::write;
  }
  for (const Pending& failed : link.unexplained) {
    failed.completion->record(told);
    --failed.completion->pending;
  }
  spare_.splice(spare_.begin(), link.unexplained);
  if (wrote) {
    spoil(link.peer, told, link.fenced ? 0 : kOperation);
  } else if (link.atomics_under_way != 0 || link.atomic_failed) {
    spoil(link.peer, told, kAllReports);  // each has its own outcome, but may still land
  }
}

void UcxChannel::end(std::unique_ptr<Link> link, Outcome outcome) {
  write_off(*link, outcome);
  // Only UCX can say that it will not touch a buffer again. It cancels without waiting for the peer; but a connection
  // that is still being set up over verbs it gives up after half a minute. Then just the hello is under way, whose
  // text is the link's own.
  if (!link->welcome) {
    assert_that(link->under_way == link->hello_sent.pending, "before a link is welcome just its hello is under way");
    unanswered_.push_back(std::move(link));
    return drop_answered();
  }
  link->endpoint.close();
  constexpr int kRoundsBeforeNapping = 1000;
  const Time give_up = monotonic_now() + fabric::time_limits::kCancelling;
  for (int round = 0; link->under_way != 0; ++round) {
    const bool moved = worker_->progress();
    if (round <= kRoundsBeforeNapping) continue;
    if (monotonic_now() >= give_up) return drop_worker(std::move(link));
    if (!moved) std::this_thread::sleep_for(100us);
  }
}

// A later link, of a new worker, is welcome only when the peer has closed its ends of the earlier ones of this channel.
void UcxChannel::drop_worker(std::unique_ptr<Link> first) {
  siblings_.remove(*this);
  std::vector<std::unique_ptr<Link>> dropped = std::exchange(unanswered_, {});  // UCX knows them as long as the worker
  if (first != nullptr) {
    log_.warn("UCX does not cancel operations that timed out: a channel begins anew with all its peers");
    dropped.push_back(std::move(first));
  }
  for (auto entry = links_.begin(); entry != links_.end();) {
    if (!entry->second->endpoint) {
      ++entry;
      continue;
    }
    write_off(*entry->second, Outcome::link_lost);
    dropped.push_back(std::move(entry->second));
    entry = links_.erase(entry);
  }
  for (const auto& link : dropped) {
    link->keys.clear();
    link->endpoint.close();
  }
  worker_.reset();
  while (!under_way_.empty()) {
    assert_that(under_way_.front().link->ended.has_value(), "what is under way on a worker ends with it");
    settle(under_way_.front(), UCS_ERR_CANCELED);
  }
  opened_.clear();
}

void UcxChannel::drop_answered() {
  for (const auto& link : unanswered_) {
    if (!link->awaits_answer()) link->endpoint.close();
  }
  std::erase_if(unanswered_, [](const auto& link) { return !link->endpoint && link->under_way == 0; });
}

}  // namespace farside
