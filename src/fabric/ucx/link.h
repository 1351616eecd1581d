// link.h — a channel's way to one peer: an endpoint, and what was posted there and is not finished.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fabric/ucx/channel.h"
#include "fabric/ucx/context.h"
#include "fabric/ucx/peer.h"

namespace farside {

struct UcxChannel::Link {
  struct Deferred {
    Operation operation;
    Completion* completion;
  };
  struct UnpackedKey {
    std::weak_ptr<const UcxRemoteMemory> memory;  // keeps the address, which is what we look up by, from being reused
    UcxKey key;
  };

  Link(UcxChannel& owner, std::shared_ptr<UcxPeer> to) : channel(owner), peer(std::move(to)) {}

  /// Nothing that was posted is unfinished, and nothing of it may turn out to be lost. (The hello does not count.)
  [[nodiscard]] bool quiet() const { return !failed && deferred.empty() && (!welcome || under_way == 0); }
  [[nodiscard]] bool takes_operations() const { return welcome && !failed; }
  /// Sets it aside: what was under way is told how it ended once that is explained.
  void fail(std::optional<Outcome> why = {});
  /// Why it failed, as far as is known now.
  [[nodiscard]] Outcome explanation() const {
    return peer->lost ? Outcome::peer_lost : why.value_or(Outcome::link_lost);
  }
  /// The explanation is final. A broken link may be the first sign that its peer has ended.
  [[nodiscard]] bool is_explained() const;
  /// Over TCP, the peer is about to connect back. UCX 1.13 aborts us if that fails when this endpoint is gone already.
  [[nodiscard]] bool awaits_answer() const {
    return channel.context_.in_order() && hello_posted && !welcome && !failed;
  }
  /// Null when UCX cannot use it.
  ucp_rkey_h key_of(const std::shared_ptr<const UcxRemoteMemory>& memory);

  UcxChannel& channel;
  const std::shared_ptr<UcxPeer> peer;
  std::uint64_t number = 0;  // of the channel's links, in the order in which they were opened
  std::string hello;
  Completion hello_sent;
  UcxEndpoint endpoint;  // empty until the link is opened
  bool hello_posted = false;
  bool welcome = false;
  bool failed = false;
  Time failed_at{};
  std::optional<Outcome> why;      // it failed, where that is known at once
  std::list<Pending> unexplained;  // what UCX has finished as failed since then
  std::optional<Outcome> ended;    // what operations that fail are told; none before the link was ended
  std::uint32_t under_way = 0;
  std::uint32_t atomics_under_way = 0;
  bool atomic_failed = false;      // it may still take effect at the peer
  std::vector<Deferred> deferred;  // until welcome
  // Memory that was written since the last flush, and where in it.
  std::shared_ptr<const UcxRemoteMemory> unflushed;
  std::uint64_t unflushed_address = 0;
  std::uint64_t unflushed_bytes = 0;
  bool fenced = false;  // a fence said done after some of that
  std::unordered_map<const UcxRemoteMemory*, UnpackedKey> keys;
};

template <class Start>
void UcxChannel::track(Link& link, Completion& completion, Start&& start) {
  Pending& pending = begin(link, completion, false);
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = &on_done;
  params.user_data = &pending;
  const ucs_status_ptr_t request = start(params);
  if (!UCS_PTR_IS_PTR(request)) settle(pending, UCS_PTR_STATUS(request));  // finished at once: on_done is not called
}

}  // namespace farside
