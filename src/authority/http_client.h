// http_client.h — JSON requests to a server, by libcurl. Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace farside::authority {

/// Files; empty: none.
struct Certificates {
  std::string ca;
  std::string own;
  std::string key;
};

class HttpClient {
 public:
  struct Reply {
    long status = 0;   ///< 0: no answer; the server may have heard the request all the same
    std::string body;  ///< of no answer: why
  };

  explicit HttpClient(const Certificates& certificates);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// A body of more than 64 MiB is no answer. Follows no redirection, and uses no proxy.
  [[nodiscard]] Reply post(const std::string& url, const std::vector<std::string>& headers, std::string_view body,
                           std::chrono::milliseconds limit);

 private:
  struct Handle;
  const std::unique_ptr<Handle> handle_;
};

}  // namespace farside::authority
