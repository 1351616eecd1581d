// Operations as messages, which the target's CPU carries out (target.h): atomics, and all of them where all is TCP.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "fabric/ucx/channel.h"
#include "fabric/ucx/link.h"

namespace farside {

UcxChannel::Pending& UcxChannel::begin(Link& link, Completion& completion, bool is_atomic) {
  if (spare_.empty()) spare_.emplace_back();
  under_way_.splice(under_way_.begin(), spare_, spare_.begin());
  Pending& pending = under_way_.front();
  pending = {&link, &completion, under_way_.begin(), is_atomic};
  ++completion.pending;
  ++link.under_way;
  link.atomics_under_way += is_atomic ? 1 : 0;
  return pending;
}

void UcxChannel::ask(Link& link, const Operation& operation, std::uint64_t address, Completion& completion) {
  assert_that(operation.bytes != 0, "an operation as a message has something to send or a result to await");
  const bool is_write = operation.kind == Operation::Kind::write;
  const std::uint64_t ticket = ++tickets_;
  if (spare_.empty()) spare_.emplace_back();
  if (!is_write) awaited_.emplace(ticket, &spare_.front());
  Pending& pending = begin(link, completion, operation.is_atomic());  // that one; memory cannot be lacking any more
  pending.local = operation.local;
  pending.unsent = is_write ? operation.bytes : 0;
  pending.unread = is_write ? 0 : operation.bytes;
  pending.message = {ticket,
                     address,
                     operation.bytes,
                     operation.operand,
                     operation.expected,
                     static_cast<std::uint64_t>(operation.kind)};
  send(pending);
}

// Until all is sent, or UCX has no room at once.
void UcxChannel::send(Pending& pending) {
  do {
    const std::uint64_t piece = std::min(pending.unsent, kMaxPieceBytes);
    const ucs_status_ptr_t request = send_by_link(pending.link->endpoint.get(), kOperationMessage, pending.message,
                                                  pending.local, piece, &on_piece_sent, &pending);
    if (UCS_PTR_IS_ERR(request)) return settle(pending, UCS_PTR_STATUS(request));
    if (UCS_PTR_IS_PTR(request)) {
      pending.is_in_ucx = true;
      return;
    }
    pending.advance(piece);
  } while (pending.unsent != 0);
  if (pending.unread == 0) settle(pending, UCS_OK);
}

void UcxChannel::on_piece_sent(void* request, ucs_status_t status, void* pending) {
  ucp_request_free(request);
  Pending& sent = *static_cast<Pending*>(pending);
  UcxChannel& self = sent.link->channel;
  sent.is_in_ucx = false;
  sent.advance(std::min(sent.unsent, kMaxPieceBytes));
  if (status != UCS_OK || sent.link->ended) {
    self.settle(sent, status != UCS_OK ? status : UCS_ERR_CANCELED);
  } else if (sent.unsent != 0) {
    self.send(sent);
  } else if (sent.unread == 0) {
    self.settle(sent, UCS_OK);
  }
}

// An answer that nothing awaits (any more) is dropped, and so is one that comes by another link than was asked.
ucs_status_t UcxChannel::on_result(void* channel, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t bytes, const ucp_am_recv_param_t* params) {
  UcxChannel& self = *static_cast<UcxChannel*>(channel);
  const auto result = header_of<UcxResult>(*params, header, header_bytes);
  if (!result) return UCS_OK;
  const auto found = self.awaited_.find(result->ticket);
  if (found == self.awaited_.end()) return UCS_OK;
  Pending& pending = *found->second;
  const std::uint64_t whole = pending.message.bytes;
  const bool fits = bytes <= pending.unread && result->offset <= whole && bytes <= whole - result->offset;
  if (params->reply_ep != pending.link->endpoint.get() || !fits) return UCS_OK;
  std::memcpy(pending.local + result->offset, data, bytes);
  pending.unread -= bytes;
  if (pending.unread != 0) return UCS_OK;
  self.awaited_.erase(found);
  if (!pending.is_in_ucx) self.settle(pending, UCS_OK);
  return UCS_OK;
}

void UcxChannel::stop_awaiting(const Link& link) {
  for (auto entry = awaited_.begin(); entry != awaited_.end();) {
    Pending& pending = *entry->second;
    if (pending.link != &link) {
      ++entry;
      continue;
    }
    entry = awaited_.erase(entry);
    pending.unread = 0;
    if (!pending.is_in_ucx) settle(pending, UCS_ERR_CANCELED);
  }
}

}  // namespace farside
