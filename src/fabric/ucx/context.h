// context.h — owners of UCX's objects: the context, a worker, an endpoint, a registration, an unpacked key.
//
// Each is destroyed before what it was made from. UCX is used by one thread at a time for each worker; the context is
// shared by workers of several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <ucp/api/ucp.h>

#include "farside/fabric/time.h"

namespace farside {

/// UCX of this process. Throws Error when no transport to other hosts is usable.
class UcxContext {
 public:
  /// `expected_endpoints`: about how many will be made, where that is known; UCX chooses transports by it. 0: unknown.
  /// `network` as in HostFabricOptions.
  explicit UcxContext(std::uint32_t expected_endpoints = 0, const std::string& network = {});

  [[nodiscard]] ucp_context_h get() const noexcept { return context_.get(); }

  /// Whether all transports are TCP. Then each endpoint is one stream whose other end a CPU reads in order: nothing
  /// posted later overtakes a WRITE, and the acknowledgement that a flush waits for was sent by the CPU that stored.
  [[nodiscard]] bool in_order() const noexcept { return in_order_; }

  /// Logs that UCX listens on all interfaces where, over TCP, neither a network nor a setting of UCX's limits it.
  void warn_unless_limited() const;

  /// After a worker was opened: reports which settings of the transports in use UCX has not taken. Throws Error when
  /// the memory model needs one of them.
  void expect_known_settings() const;

 private:
  struct Cleanup {
    void operator()(ucp_context_h context) const { ucp_cleanup(context); }
  };
  std::unique_ptr<std::remove_pointer_t<ucp_context_h>, Cleanup> context_;
  bool in_order_ = false;
  bool uses_tcp_ = false;
  bool uses_infiniband_ = false;
  bool is_limited_ = false;  ///< to some devices
};

/// Whether a handler of messages was given the message itself. One that its sender only offers (a rendezvous) has the
/// size that the sender claims, and no byte of it is there.
[[nodiscard]] inline bool arrived_whole(const ucp_am_recv_param_t& params) {
  return (params.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
}

/// The header of a message that names the link it came by, if it is of this kind and is whole.
template <class Header>
std::optional<Header> header_of(const ucp_am_recv_param_t& params, const void* bytes, std::size_t count) {
  const bool names_link = (params.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  if (!arrived_whole(params) || !names_link || count != sizeof(Header)) return std::nullopt;
  Header header{};
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

/// Sends a message that names the link to the other end. Returns as ucp_am_send_nbx: only for a request, whose header
/// and data stay where they are until then, `done` is called with `argument`.
template <class Header>
ucs_status_ptr_t send_by_link(ucp_ep_h to, unsigned number, const Header& header, const std::byte* data,
                              std::size_t bytes, ucp_send_nbx_callback_t done, void* argument) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
  params.cb.send = done;
  params.user_data = argument;
  return ucp_am_send_nbx(to, number, &header, sizeof header, data, bytes, &params);
}

class UcxWorker {
 public:
  UcxWorker(const UcxContext& context, ucs_thread_mode_t mode);

  [[nodiscard]] ucp_worker_h get() const noexcept { return worker_.get(); }
  [[nodiscard]] std::string address() const;
  /// Returns whether anything happened.
  bool progress() { return ucp_worker_progress(worker_.get()) != 0; }
  /// Returns false when there is something to progress instead. What arrived since the last progress may go unnoticed
  /// (Soft-RoCE tells of later arrivals only), so progress once more before the sleep.
  [[nodiscard]] bool arm() { return ucp_worker_arm(worker_.get()) == UCS_OK; }
  /// After arm: returns when there may be something to progress, signal was called, or the deadline passed.
  void sleep(Deadline deadline) const;
  /// From any thread.
  void signal() { ucp_worker_signal(worker_.get()); }
  /// Calls `handler(argument, data, bytes, reply endpoint)` for messages of this number, within progress.
  void on_message(unsigned number, ucp_am_recv_callback_t handler, void* argument);

 private:
  struct Destroy {
    void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
  };
  std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, Destroy> worker_;
  int event_fd_ = -1;  // the worker's own
};

/// A connection to a peer's worker; its death is reported to `on_error`. Closed by force: what is under way ends as
/// cancelled while the worker goes on to progress.
class UcxEndpoint {
 public:
  UcxEndpoint() = default;
  /// Empty when UCX refuses, as for want of memory or descriptors; a broken address cannot come here (seal.h).
  UcxEndpoint(const UcxWorker& worker, std::string_view remote_address, ucp_err_handler_cb_t on_error, void* argument);

  [[nodiscard]] ucp_ep_h get() const noexcept { return endpoint_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return endpoint_ != nullptr; }
  /// UCX's reason for the refusal.
  [[nodiscard]] std::string why_not() const { return ucs_status_string(status_); }
  void close() noexcept { endpoint_.reset(); }

 private:
  struct Close {
    void operator()(ucp_ep_h endpoint) const;
  };
  std::unique_ptr<std::remove_pointer_t<ucp_ep_h>, Close> endpoint_;
  ucs_status_t status_ = UCS_OK;
};

struct UcxKeyDestroy {
  void operator()(ucp_rkey_h key) const { ucp_rkey_destroy(key); }
};
/// The key with which one endpoint reaches one remote memory.
using UcxKey = std::unique_ptr<std::remove_pointer_t<ucp_rkey_h>, UcxKeyDestroy>;

}  // namespace farside
