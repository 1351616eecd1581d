#include "fabric/ucx/target.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "farside/fabric/channel.h"

#include "base/assert.h"
#include "fabric/bulk_copy.h"

namespace farside {

namespace {

constexpr unsigned kPiecesATurn = 128;  // 1 MB

template <class T>
T* memory_of(const UcxOperation& operation) {
  return reinterpret_cast<T*>(operation.address);  // NOLINT(performance-no-int-to-ptr): a peer has named it
}

void store(const UcxOperation& operation, const std::byte* data, std::uint64_t bytes) {
  auto* const to = memory_of<std::byte>(operation);
  if (bytes == sizeof(std::uint64_t)) return word_copy(to, data);
  bulk_copy(to, data, bytes);
}

// Returns the old value.
std::uint64_t change(const UcxOperation& operation) {
  const std::atomic_ref word(*memory_of<std::uint64_t>(operation));
  switch (static_cast<Operation::Kind>(operation.kind)) {
    case Operation::Kind::fetch_add: return word.fetch_add(operation.operand);
    case Operation::Kind::swap: return word.exchange(operation.operand);
    default: break;
  }
  std::uint64_t expected = operation.expected;
  word.compare_exchange_strong(expected, operation.operand);
  return expected;
}

static_assert(static_cast<int>(Operation::Kind::read) == 0 && static_cast<int>(Operation::Kind::write) == 1 &&
                  static_cast<int>(Operation::Kind::fetch_add) == 2 &&
                  static_cast<int>(Operation::Kind::compare_swap) == 3 && static_cast<int>(Operation::Kind::swap) == 4,
              "processes of other builds understand these");

bool makes_sense(const UcxOperation& operation) {
  return operation.kind <= static_cast<std::uint64_t>(Operation::Kind::swap) &&
         (operation.kind <= static_cast<std::uint64_t>(Operation::Kind::write) ||
          operation.address % sizeof(std::uint64_t) == 0);
}

}  // namespace

std::uint64_t UcxTarget::Result::piece() const {
  assert_that(header.offset <= bytes, "no more of a result is sent than there is");
  return std::min(bytes - header.offset, kMaxPieceBytes);
}

ucs_status_t UcxTarget::on_operation(void* target, const void* header, std::size_t header_bytes, void* data,
                                     std::size_t bytes, const ucp_am_recv_param_t* params) {
  const auto operation = header_of<UcxOperation>(*params, header, header_bytes);
  UcxTarget& self = *static_cast<UcxTarget*>(target);
  if (!operation || !makes_sense(*operation) || !self.admitted_.contains(params->reply_ep)) return UCS_OK;
  self.has_stored_ |= static_cast<Operation::Kind>(operation->kind) != Operation::Kind::read;
  if (static_cast<Operation::Kind>(operation->kind) == Operation::Kind::write) {
    store(*operation, static_cast<const std::byte*>(data), bytes);
  } else {
    try {
      self.begin(*operation, params->reply_ep);
    } catch (const std::bad_alloc&) {
      self.give_up_(params->reply_ep);
    }
  }
  return UCS_OK;
}

void UcxTarget::begin(const UcxOperation& operation, ucp_ep_h from) {
  results_.push_front({*this, from, {operation.ticket, 0}});
  Result& result = results_.front();
  result.self = results_.begin();
  const auto* const memory = memory_of<const std::byte>(operation);
  auto* const word = reinterpret_cast<std::byte*>(&result.word);
  const bool is_read = static_cast<Operation::Kind>(operation.kind) == Operation::Kind::read;
  const bool is_large = is_read && operation.bytes != sizeof result.word;
  if (!is_read) {
    result.word = change(operation);
  } else if (!is_large) {
    word_copy(word, memory);  // UCX might copy it in parts
  }
  result.data = is_large ? memory : word;
  result.bytes = is_large ? operation.bytes : sizeof result.word;
  send(result.self);
}

// Until all is sent, UCX has no room at once, or others are to have their turn.
void UcxTarget::send(std::list<Result>::iterator result) {
  for (unsigned pieces = 0; result->header.offset < result->bytes; ++pieces) {
    if (pieces == kPiecesATurn) return interrupted_.splice(interrupted_.end(), results_, result);
    const ucs_status_ptr_t request =
        send_by_link(result->to, kResultMessage, result->header, result->data + result->header.offset, result->piece(),
                     &on_sent, &*result);
    if (UCS_PTR_IS_PTR(request)) return;
    if (UCS_PTR_IS_ERR(request)) {
      give_up_(result->to);
      break;
    }
    result->header.offset += result->piece();
  }
  results_.erase(result);
}

void UcxTarget::on_sent(void* request, ucs_status_t status, void* result) {
  ucp_request_free(request);
  Result& sent = *static_cast<Result*>(result);
  if (status != UCS_OK) {
    sent.target.results_.erase(sent.self);
    return;
  }
  sent.header.offset += sent.piece();
  sent.target.send(sent.self);
}

bool UcxTarget::go_on() {
  std::list<Result> now = std::exchange(interrupted_, {});
  const bool any = !now.empty();
  while (!now.empty()) {
    results_.splice(results_.begin(), now, now.begin());
    send(results_.begin());
  }
  return any;
}

void UcxTarget::forget(ucp_ep_h endpoint) {
  admitted_.erase(endpoint);
  interrupted_.remove_if([&](const Result& result) { return result.to == endpoint; });
  for (Result& result : results_) {
    if (result.to == endpoint) result.bytes = result.header.offset;
  }
}

}  // namespace farside
