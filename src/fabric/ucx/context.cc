#include "fabric/ucx/context.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <sstream>
#include <string_view>

#include <poll.h>
#include <ucs/debug/log_def.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "fabric/clock.h"

namespace farside {

namespace {

constexpr const char* kDevicesRemedy =
    "see ucx_info -d for the devices and transports of this machine, and check UCX_NET_DEVICES and UCX_TLS";

std::string devices() {
  const char* named = std::getenv("UCX_NET_DEVICES");
  return named == nullptr ? "on all devices" : std::string("on UCX_NET_DEVICES=") + named;
}

void check(ucs_status_t status, const char* tried) {
  if (status != UCS_OK) throw Error({tried, devices(), ucs_status_string(status), kDevicesRemedy});
}

// UCX would write to standard output, which belongs to the program.
ucs_log_func_rc_t log_line(const char* /*file*/, unsigned /*line*/, const char* /*function*/, ucs_log_level_t level,
                           const ucs_log_component_config_t* /*component*/, const char* format, va_list arguments) {
  std::array<char, 1024> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  // What we set for TCP (read_config), where TCP is not in use.
  if (std::string_view(text.data()).starts_with("invalid configuration: ")) return UCS_LOG_FUNC_RC_STOP;
  const std::string line = std::string("UCX: ") + text.data();
  // Mostly to a peer that has ended meanwhile; where that is trouble, it is an outcome of whatever was asked of it.
  const bool is_outcome = line.find(": connection establishment for socket fd ") != std::string::npos;
  level <= UCS_LOG_LEVEL_WARN && !is_outcome ? log::warn(line) : log::info(line);
  return UCS_LOG_FUNC_RC_STOP;
}

void take_over_log() {
  static std::once_flag once;  // UCX's handlers are a process's, as our logger is
  std::call_once(once, [] { ucs_log_push_handler(&log_line); });
}

struct ConfigRelease {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};
using Config = std::unique_ptr<ucp_config_t, ConfigRelease>;

Config read_config() {
  ucp_config_t* read = nullptr;
  check(ucp_config_read(nullptr, nullptr, &read), "read the settings of UCX");
  Config config(read);
  check(ucp_config_modify(config.get(), "ATOMIC_MODE", "cpu"), "have CPUs carry out the atomics of UCX");
  // Over verbs, keep-alive adds a lane of UD that carries the connection's set-up too, and UCX 1.13 aborts the process
  // when such an endpoint is closed before its peer answered.
  check(ucp_config_modify(config.get(), "KEEPALIVE_INTERVAL", "inf"), "leave out the keep-alive of UCX");
  // Otherwise a connection to a host that vanished blocks us for minutes, and one to a process that ended on a living
  // host can abort this one (ucp_ep_create fails the endpoint, then goes on with it). No prefix: UCX 1.13 wants none
  // here.
  check(ucp_config_modify(config.get(), "CONN_NB", "y"), "have UCX connect without blocking");
  // TCP's keep-alive would take a peer for dead, for good, whose link was cut for half a minute, and only on the side
  // that had made the connection. Who is dead on another host the team tells, to all.
  check(ucp_config_modify(config.get(), "KEEPIDLE", "inf"), "leave out TCP's keep-alive");
  // Shared-memory transports leave files in /dev/shm behind killed processes, and `direct` is there for one host.
  if (std::getenv("UCX_TLS") == nullptr) {
    check(ucp_config_modify(config.get(), "TLS", "^sm"), "leave out the shared-memory transports of UCX");
  }
  return config;
}

// What the context uses, as "tcp/eth0". UCX 1.13 has no other way to ask than to print
// "#      resource 0  :  md 0  dev 0  flags -- tcp/eth0".
std::vector<std::string> transports_of(ucp_context_h context) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* stream = ::open_memstream(&text, &bytes);
  ucp_context_print_info(context, stream);
  std::fclose(stream);
  std::istringstream lines(std::string(text, bytes));
  std::free(text);

  std::vector<std::string> transports;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" resource ") != std::string::npos) transports.push_back(line.substr(line.find_last_of(' ') + 1));
  }
  return transports;
}

bool is_tcp(std::string_view transport) { return transport.starts_with("tcp/"); }
bool stays_in_worker(std::string_view transport) { return transport.starts_with("self/"); }
bool stays_on_host(std::string_view transport) { return transport.find("/memory") != std::string_view::npos; }

}  // namespace

UcxContext::UcxContext() {
  take_over_log();
  const Config config = read_config();
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  ucp_context_h context = nullptr;
  check(ucp_init(&params, config.get(), &context), "start UCX");
  context_.reset(context);

  const std::vector<std::string> transports = transports_of(context);
  if (std::all_of(transports.begin(), transports.end(), stays_on_host)) {
    throw Error({"start UCX", devices(), "no transport to other hosts is usable", kDevicesRemedy});
  }
  in_order_ = std::all_of(transports.begin(), transports.end(),
                          [](const auto& transport) { return is_tcp(transport) || stays_in_worker(transport); });
}

UcxWorker::UcxWorker(const UcxContext& context, ucs_thread_mode_t mode) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = mode;
  ucp_worker_h worker = nullptr;
  check(ucp_worker_create(context.get(), &params, &worker), "open a UCX worker");
  worker_.reset(worker);
  check(ucp_worker_get_efd(worker, &event_fd_), "wait for a UCX worker's events");
}

std::string UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  check(ucp_worker_get_address(worker_.get(), &address, &bytes), "learn the address of a UCX worker");
  std::string copy(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_.get(), address);
  return copy;
}

void UcxWorker::sleep(Deadline deadline) const {
  const Duration left = std::max(deadline.at - monotonic_now(), Duration(0));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec timeout{seconds.count(), (left - seconds).count()};
  pollfd event{event_fd_, POLLIN, 0};
  ::ppoll(&event, 1, &timeout, nullptr);  // an interruption is one more look
}

void UcxWorker::on_message(unsigned number, ucp_am_recv_callback_t handler, void* argument) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = number;
  params.cb = handler;
  params.arg = argument;
  check(ucp_worker_set_am_recv_handler(worker_.get(), &params), "receive messages through a UCX worker");
}

UcxEndpoint::UcxEndpoint(const UcxWorker& worker, std::string_view remote_address, ucp_err_handler_cb_t on_error,
                         void* argument) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(remote_address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, argument};
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t status = ucp_ep_create(worker.get(), &params, &endpoint);
  if (status == UCS_OK) {
    endpoint_.reset(endpoint);
  } else {
    log::warn(std::string("cannot reach a peer through UCX: ") + ucs_status_string(status));
  }
}

void UcxEndpoint::Close::operator()(ucp_ep_h endpoint) const {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &params);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

}  // namespace farside
