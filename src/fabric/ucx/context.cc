#include "fabric/ucx/context.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <new>
#include <sstream>
#include <string_view>

#include <poll.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/log_def.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "fabric/clock.h"
#include "fabric/ucx/devices.h"

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

// UCX takes a name that it does not know for a setting of a transport, accepts it, and says when a worker is opened
// which of them no transport in use knows. Those of transports have a prefix from 1.17 on.
enum class Of : std::uint8_t { any, tcp, infiniband };
struct Setting {
  const char* prefix;
  const char* name;
  const char* value;
  Of of;                  ///< the transports that it is about
  const char* without;    ///< what happens then
  bool is_vital = false;  ///< to the memory model
};
constexpr std::array kSettings{
    // Over verbs, keep-alive adds a lane of UD that carries the connection's set-up too, and UCX 1.13 aborts the
    // process when such an endpoint is closed before its peer answered.
    Setting{"", "KEEPALIVE_INTERVAL", "inf", Of::any, "UCX's own keep-alive decides which peers count as dead"},
    // Also, a connection to a process that ended on a living host can abort this one (ucp_ep_create fails the endpoint,
    // then goes on with it).
    Setting{"TCP_", "CONN_NB", "y", Of::tcp, "a connection to a host that vanished blocks for minutes"},
    // And only on the side that had made the connection. The team tells, to all, which peer is dead on another host.
    Setting{"TCP_", "KEEPIDLE", "inf", Of::tcp, "a peer whose link is cut for half a minute counts as dead, for good"},
    // The flag of a message passes its data inside the target's PCIe, whatever order they came in.
    Setting{"IB_", "PCI_RELAXED_ORDERING", "no", Of::infiniband, "a NIC may store what was fenced in another order",
            true},
};

// UCX has said that it does not know the setting. UCX's log is a process's, as our logger is.
enum class Known : std::uint8_t { yes, no, no_and_said };
std::array<std::atomic<Known>, kSettings.size()> known_settings;

void note_unknown(std::size_t setting) {
  Known expected = Known::yes;
  known_settings[setting].compare_exchange_strong(expected, Known::no);
}

void note_unknown_settings(std::string_view text) {
  for (std::size_t at = 0; at < kSettings.size(); ++at) {
    if (text.find(std::string(kSettings[at].name) + '=') != std::string_view::npos) note_unknown(at);
  }
}

bool has_prefixes() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  return major > 1 || minor >= 17;
}

void apply_settings(ucp_config_t* config) {
  for (std::size_t at = 0; at < kSettings.size(); ++at) {
    const Setting& setting = kSettings[at];
    const std::string name = (has_prefixes() ? setting.prefix : std::string()) + setting.name;
    if (ucp_config_modify(config, name.c_str(), setting.value) != UCS_OK) note_unknown(at);
  }
}

bool leaves_transports_out() { return std::getenv("UCX_TLS") == nullptr; }

// The most that the user wants of UCX's log.
std::atomic<ucs_log_level_t> log_level;

// UCX would write to standard output, which belongs to the program.
ucs_log_func_rc_t log_line(const char* /*file*/, unsigned /*line*/, const char* /*function*/, ucs_log_level_t level,
                           const ucs_log_component_config_t* /*component*/, const char* format, va_list arguments) try {
  std::array<char, 1024> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  if (std::string_view(text.data()).starts_with("invalid configuration")) {
    note_unknown_settings(text.data());
    return UCS_LOG_FUNC_RC_STOP;
  }
  if (level > log_level.load()) return UCS_LOG_FUNC_RC_STOP;
  // Most transports that read_config excludes exist on no machine.
  const std::string_view said = text.data();
  if (said.starts_with("transports '") && said.find("' are not available") != said.npos && leaves_transports_out()) {
    return UCS_LOG_FUNC_RC_STOP;
  }
  const std::string line = std::string("UCX: ") + text.data();
  // Mostly to a peer that has ended meanwhile; where that is trouble, it is an outcome of whatever was asked of it.
  const bool is_outcome = line.find(": connection establishment for socket fd ") != std::string::npos;
  level <= UCS_LOG_LEVEL_WARN && !is_outcome ? log::warn(line) : log::info(line);
  return UCS_LOG_FUNC_RC_STOP;
} catch (const std::bad_alloc&) {
  return UCS_LOG_FUNC_RC_STOP;  // the line is lost, but UCX, which is C, bears no exception
}

void take_over_log() {
  static std::once_flag once;  // UCX's handlers are a process's, as our logger is
  std::call_once(once, [] {
    ucs_log_level_t& level = ucs_global_opts.log_component.log_level;
    log_level = level;
    level = std::max(level, UCS_LOG_LEVEL_WARN);  // by which UCX tells of settings that it does not know
    ucs_log_push_handler(&log_line);
  });
}

// Much of UCX is told only where it is printed. Throws Error when memory is lacking.
template <class Print>
std::string what_is_printed(Print&& print) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const stream = ::open_memstream(&text, &bytes);
  if (stream == nullptr) throw errno_error("read", "the settings of UCX");
  print(stream);
  std::fclose(stream);
  const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
  return {text, bytes};
}

struct ConfigRelease {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};
using Config = std::unique_ptr<ucp_config_t, ConfigRelease>;

std::string printed(const ucp_config_t* config) {
  return what_is_printed(
      [&](std::FILE* stream) { ucp_config_print(config, stream, nullptr, UCS_CONFIG_PRINT_CONFIG); });
}

// By the environment or by UCX's file of settings.
bool names_devices(const ucp_config_t* config) {
  return std::getenv("UCX_NET_DEVICES") != nullptr ||
         printed(config).find("UCX_NET_DEVICES=all\n") == std::string::npos;
}

Config read_config(const std::string& network) {
  ucp_config_t* read = nullptr;
  check(ucp_config_read(nullptr, nullptr, &read), "read the settings of UCX");
  Config config(read);
  apply_settings(config.get());
  // Shared-memory transports leave files in /dev/shm behind killed processes, and `direct` is there for one host. Those
  // of GPUs move nothing here, and with them UCX sets connections up in another order than over TCP alone.
  if (leaves_transports_out()) {
    check(ucp_config_modify(config.get(), "TLS", "^sm,cuda,rocm,ze"), "leave out UCX's transports within a host");
  }
  if (!network.empty() && !names_devices(config.get())) {
    check(ucp_config_modify(config.get(), "NET_DEVICES", devices_of_network(network).c_str()), "limit UCX's devices");
  }
  return config;
}

// Returns the transports that the context uses, as "tcp/eth0". UCX 1.13 has no other way to ask than to print
// "#      resource 0  :  md 0  dev 0  flags -- tcp/eth0".
std::vector<std::string> transports_of(ucp_context_h context) {
  std::istringstream lines(what_is_printed([&](std::FILE* stream) { ucp_context_print_info(context, stream); }));
  std::vector<std::string> transports;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" resource ") != std::string::npos) transports.push_back(line.substr(line.find_last_of(' ') + 1));
  }
  return transports;
}

bool is_tcp(std::string_view transport) { return transport.starts_with("tcp/"); }
bool is_infiniband(std::string_view transport) {
  return transport.starts_with("rc_") || transport.starts_with("ud_") || transport.starts_with("dc_");
}
bool stays_in_worker(std::string_view transport) { return transport.starts_with("self/"); }
bool stays_on_host(std::string_view transport) { return transport.find("/memory") != std::string_view::npos; }

}  // namespace

UcxContext::UcxContext(std::uint32_t expected_endpoints, const std::string& network) {
  take_over_log();
  const Config config = read_config(network);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  if (expected_endpoints != 0) {
    params.field_mask |= UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
    params.estimated_num_eps = expected_endpoints;
  }
  ucp_context_h context = nullptr;
  check(ucp_init(&params, config.get(), &context), "start UCX");
  context_.reset(context);

  const std::vector<std::string> transports = transports_of(context);
  if (std::all_of(transports.begin(), transports.end(), stays_on_host)) {
    throw Error({"start UCX", devices(), "no transport to other hosts is usable", kDevicesRemedy});
  }
  in_order_ = std::all_of(transports.begin(), transports.end(),
                          [](const auto& transport) { return is_tcp(transport) || stays_in_worker(transport); });
  uses_tcp_ = std::any_of(transports.begin(), transports.end(), is_tcp);
  uses_infiniband_ = std::any_of(transports.begin(), transports.end(), is_infiniband);
  is_limited_ = !network.empty() || names_devices(config.get());
}

void UcxContext::warn_unless_limited() const {
  if (!uses_tcp_ || is_limited_) return;
  log::warn(
      "UCX listens on every network interface of this host, and whatever reaches a port can overwrite memory; set "
      "UCX_NET_DEVICES to the interface of the members' network, such as eth1 (ucx_info -d lists them), or to all if "
      "that is meant");
}

void UcxContext::expect_known_settings() const {
  for (std::size_t at = 0; at < kSettings.size(); ++at) {
    const auto& [prefix, name, value, of, without, is_vital] = kSettings[at];
    Known unsaid = Known::no;
    if ((of == Of::tcp && !uses_tcp_) || (of == Of::infiniband && !uses_infiniband_)) continue;
    const std::string why = std::string("UCX ") + ucp_get_version_string() + " does not know the setting " + name +
                            "=" + value + ", so " + without;
    if (is_vital && known_settings[at] != Known::yes) {
      throw Error({"start UCX", devices(), why, "use the UCX that farside is tried with (1.13), or set UCX_TLS=tcp"});
    }
    if (!known_settings[at].compare_exchange_strong(unsaid, Known::no_and_said)) continue;
    log::warn(why + "; farside is tried with UCX 1.13");
  }
}

UcxWorker::UcxWorker(const UcxContext& context, ucs_thread_mode_t mode) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = mode;
  ucp_worker_h worker = nullptr;
  check(ucp_worker_create(context.get(), &params, &worker), "open a UCX worker");
  worker_.reset(worker);
  context.expect_known_settings();
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
  status_ = ucp_ep_create(worker.get(), &params, &endpoint);
  if (status_ == UCS_OK) endpoint_.reset(endpoint);
}

void UcxEndpoint::Close::operator()(ucp_ep_h endpoint) const {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &params);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

}  // namespace farside
