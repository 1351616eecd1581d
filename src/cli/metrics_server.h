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

/// Collects a page: each metric once, with a value for each of its labels.
class MetricsPage {
 public:
  enum class Kind : std::uint8_t { gauge, counter };

  void begin(std::string_view name, Kind kind, std::string_view help);
  /// Adds a value of the metric begun last. `labels`: `server="0"`, or nothing.
  void add(std::string_view labels, std::uint64_t value);
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

}  // namespace farside::cli
