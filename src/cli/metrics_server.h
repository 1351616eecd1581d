// metrics_server.h — numbers over HTTP, as Prometheus collects them (libmicrohttpd).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "farside/base/fd.h"

struct MHD_Daemon;

namespace farside::cli {

class MetricsServer {
 public:
  /// The page, in Prometheus's text form. Called by one thread at a time, one of this server's.
  using Write = std::function<std::string()>;

  /// Answers GET /metrics at `address` (net/socket.h) until destroyed. Throws Error when it cannot listen.
  MetricsServer(const std::string& address, Write write);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// With the port that the kernel chose.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  struct Stop {
    void operator()(MHD_Daemon* daemon) const;
  };

  const Write write_;
  std::string address_;
  std::unique_ptr<MHD_Daemon, Stop> daemon_;
};

/// Throws UsageError, with this remedy, when other machines can reach the address.
void expect_metrics_stay_here(const std::string& address, std::string remedy);

}  // namespace farside::cli
