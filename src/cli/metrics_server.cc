#include "cli/metrics_server.h"

#include <utility>

#include <fmt/format.h>
#include <microhttpd.h>

#include "farside/base/error.h"

#include "net/socket.h"

namespace farside::cli {

namespace {

MHD_Result reply(MHD_Connection* connection, unsigned status, const std::string& text, const char* type) {
  const std::unique_ptr<MHD_Response, decltype(&::MHD_destroy_response)> response(
      ::MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY),
      ::MHD_destroy_response);
  if (response == nullptr) return MHD_NO;
  ::MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_TYPE, type);
  return ::MHD_queue_response(connection, status, response.get());
}

MHD_Result answer(void* context, MHD_Connection* connection, const char* url, const char* method,
                  const char* /*version*/, const char* /*body*/, std::size_t* body_bytes, void** /*request*/) {
  const auto& write = *static_cast<const MetricsServer::Write*>(context);
  if (*body_bytes != 0) return MHD_NO;  // no request has a body here
  if (std::string_view(method) != "GET" || std::string_view(url) != "/metrics") {
    return reply(connection, MHD_HTTP_NOT_FOUND, "there is GET /metrics\n", "text/plain");
  }
  try {
    return reply(connection, MHD_HTTP_OK, write(), "text/plain; version=0.0.4");
  } catch (const Error& error) {
    return reply(connection, MHD_HTTP_SERVICE_UNAVAILABLE, std::string(error.what()) + "\n", "text/plain");
  }
}

}  // namespace

MetricsServer::MetricsServer(const std::string& address, Write write) : write_(std::move(write)) {
  Fd listener = net::listen_on(address);
  address_ = net::bound_address(listener, address);
  constexpr unsigned kMaxIdle_s = 10;
  constexpr unsigned kMaxConnections = 16;
  daemon_.reset(::MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG, 0, nullptr, nullptr, answer,
                                   const_cast<Write*>(&write_), MHD_OPTION_LISTEN_SOCKET, listener.get(),
                                   MHD_OPTION_CONNECTION_TIMEOUT, kMaxIdle_s, MHD_OPTION_CONNECTION_LIMIT,
                                   kMaxConnections, MHD_OPTION_END));
  if (daemon_ == nullptr) throw errno_error("serve metrics at", address);
  (void)listener.release();  // the daemon closes it
}

MetricsServer::~MetricsServer() = default;

void MetricsServer::Stop::operator()(MHD_Daemon* daemon) const { ::MHD_stop_daemon(daemon); }

void expect_metrics_stay_here(const std::string& address, std::string remedy) {
  if (address.empty() || net::is_loopback(address)) return;
  throw UsageError({"serve metrics at", address, "other machines could reach them, and they are told to all that ask",
                    std::move(remedy)});
}

}  // namespace farside::cli
