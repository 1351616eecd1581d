#include "fabric/ucx/link.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "farside/base/log.h"

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

// ---- A channel's links: opened, greeted, answered, ended

UcxChannel::Link* UcxChannel::find(PeerId peer) {
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second.get();
}

UcxChannel::Link* UcxChannel::link_to(const std::shared_ptr<UcxPeer>& peer) {
  Link* link = find(peer->id);
  if (link != nullptr && !link->failed && link->peer == peer) return link;
  if (link != nullptr) {
    end(std::move(links_.extract(peer->id).mapped()), Outcome::peer_lost);
  }
  std::unique_ptr<Link> opened = open_link(peer);
  if (opened == nullptr) return nullptr;
  return links_.emplace(peer->id, std::move(opened)).first->second.get();
}

std::unique_ptr<UcxChannel::Link> UcxChannel::open_link(const std::shared_ptr<UcxPeer>& peer) {
  if (!worker_) {
    worker_.emplace(context_, UCS_THREAD_MODE_SINGLE);
    worker_->on_message(kAnswerMessage, &on_answer, this);
    siblings_.add(*this);
    attention_ = true;  // nobody told this channel of a loss while the worker was being made
  }
  const std::uint64_t number = ++links_opened_;
  const UcxGreeting greeting{self_, number, ++endpoints_opened_[peer->identity], worker_->address()};
  auto link = std::make_unique<Link>(*this, peer, number, greeting.encode());
  link->endpoint = UcxEndpoint(*worker_, peer->service_address, &on_link_error, link.get());
  if (!link->endpoint) return nullptr;
  greet(*link);
  return link;
}

void UcxChannel::greet(Link& link) {
  const auto send = [&](ucp_request_param_t& params) {
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_AM_SEND_FLAG_EAGER;
    return ucp_am_send_nbx(link.endpoint.get(), kGreetingMessage, nullptr, 0, link.greeting.data(),
                           link.greeting.size(), &params);
  };
  if (!context_.in_order()) {
    link.greeted = true;
    return track(link, link.greeting_sent, send);
  }
  // What cannot leave at once, UCX lets wait, and asks the peer to connect back to us. The peer's answer to that waits
  // for the connection back, and UCX 1.13 aborts the peer if we go meanwhile. So it is the peer who is to ask.
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  const ucs_status_ptr_t sent = send(params);
  const ucs_status_t status = UCS_PTR_STATUS(sent);
  link.greeted = status == UCS_OK;
  if (status != UCS_OK && status != UCS_ERR_NO_RESOURCE) link.failed = true;
  if (!link.greeted) attention_ = true;
}

void UcxChannel::on_link_error(void* link, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {
  Link& failed = *static_cast<Link*>(link);
  failed.failed = true;
  failed.channel.attention_ = true;
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
    (welcome ? link.welcome : link.failed) = true;
  };
  for (const auto& [peer, link] : self.links_) take(*link);
  for (const auto& link : self.unanswered_) take(*link);
  self.attention_ = true;
  return UCS_OK;
}

void UcxChannel::end(std::unique_ptr<Link> link, Outcome outcome) {
  link->ended = outcome;
  for (const Link::Deferred& deferred : link->deferred) {
    deferred.completion->record(outcome);
    --deferred.completion->pending;
  }
  link->deferred.clear();
  if (link->unflushed != nullptr) {
    const auto [spoiled, is_new] = spoiled_.try_emplace(link->peer->id, Spoiled{outcome, link->peer});
    if (spoiled->second.told) spoiled->second = {outcome, link->peer};
  }
  // Only UCX can say that it will not touch a buffer again. It cancels without waiting for the peer; but a connection
  // that is still being set up over verbs it gives up after half a minute. Then just the greeting is under way, whose
  // text is the link's own.
  if (!link->welcome) {
    unanswered_.push_back(std::move(link));
    return drop_answered();
  }
  link->endpoint.close();
  constexpr int kRoundsBeforeNapping = 1000;
  for (int round = 0; link->under_way != 0; ++round) {
    if (!worker_->progress() && round > kRoundsBeforeNapping) std::this_thread::sleep_for(100us);
  }
}

void UcxChannel::drop_answered() {
  for (const auto& link : unanswered_) {
    if (!link->awaits_answer()) link->endpoint.close();
  }
  std::erase_if(unanswered_, [](const auto& link) { return !link->endpoint && link->under_way == 0; });
}

}  // namespace farside
