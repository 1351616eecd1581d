// target.h — carries out the operations that peers' channels send as messages.
//
// UCX 1.13 has an emulation of its own, which aborts the target when it answers a peer that has ended: an answer that
// cannot be sent ends the process (ucp_request.inl:346). An answer that is a message just fails.
//
// Atomics are carried out here whatever transport they came by: then they are atomic against each other, and against
// what processes of the target's host do to the same memory through `direct`.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <unordered_set>
#include <utility>

#include "fabric/ucx/context.h"
#include "fabric/ucx/messages.h"

namespace farside {

/// Used by one thread at a time, and destroyed after the worker.
///
/// Like one that came by a NIC, an operation is carried out wherever its address says: which peer to trust was decided
/// when its endpoint was admitted. None is carried out that came by another endpoint, or is found after that one was
/// forgotten.
class UcxTarget {
 public:
  /// `give_up` is told of endpoints to which a result cannot be sent though they are sound; they are to be closed.
  explicit UcxTarget(std::function<void(ucp_ep_h)> give_up) : give_up_(std::move(give_up)) {}
  UcxTarget(const UcxTarget&) = delete;
  UcxTarget& operator=(const UcxTarget&) = delete;

  /// Carries out what arrives at `worker`.
  void serve(UcxWorker& worker) { worker.on_message(kOperationMessage, &on_operation, this); }
  void admit(ucp_ep_h endpoint) { admitted_.insert(endpoint); }
  /// Before the endpoint is closed. Nothing more is sent to it.
  void forget(ucp_ep_h endpoint);
  void forget_all() { admitted_.clear(); }
  /// Goes on with large results, a bounded time with each. Returns whether there were any.
  bool go_on();
  /// Returns whether any operation has stored since it was asked last.
  [[nodiscard]] bool take_stored() { return std::exchange(has_stored_, false); }

 private:
  /// A result under way.
  struct Result {
    UcxTarget& target;
    ucp_ep_h to;
    UcxResult header;
    std::list<Result>::iterator self{};
    const std::byte* data = nullptr;  ///< in the region, or `word`
    std::uint64_t bytes = 0;
    std::uint64_t word = 0;

    [[nodiscard]] std::uint64_t piece() const;
  };

  static ucs_status_t on_operation(void* target, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t bytes, const ucp_am_recv_param_t* params);
  static void on_sent(void* request, ucs_status_t status, void* result);
  void begin(const UcxOperation& operation, ucp_ep_h from);
  void send(std::list<Result>::iterator result);

  const std::function<void(ucp_ep_h)> give_up_;
  std::unordered_set<ucp_ep_h> admitted_;
  std::list<Result> results_;      // UCX has a piece of each, or is about to
  std::list<Result> interrupted_;  // that others may have their turn
  bool has_stored_ = false;
};

}  // namespace farside
