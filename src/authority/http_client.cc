#include "authority/http_client.h"

#include <array>
#include <utility>

#include <curl/curl.h>
#include <sys/socket.h>

#include "farside/base/error.h"

namespace farside::authority {

namespace {

constexpr std::size_t kMaxBody = 64U << 20U;

struct ListDeleter {
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};

// Once, and never undone: other libraries of the process may use it as well.
void initialize() {
  static const CURLcode code = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) throw Error({"start", "libcurl", ::curl_easy_strerror(code), ""});
}

std::size_t take(char* bytes, std::size_t size, std::size_t count, void* body) {
  auto& taken = *static_cast<std::string*>(body);
  if (taken.size() + size * count > kMaxBody) return 0;
  taken.append(bytes, size * count);
  return size * count;
}

// Not for programs that this process starts.
curl_socket_t open_socket(void* /*client*/, curlsocktype /*purpose*/, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

}  // namespace

struct HttpClient::Handle {
  struct Deleter {
    void operator()(CURL* held) const { ::curl_easy_cleanup(held); }
  };
  std::unique_ptr<CURL, Deleter> curl;
  std::array<char, CURL_ERROR_SIZE> why{};
};

HttpClient::HttpClient(const Certificates& certificates) : handle_(std::make_unique<Handle>()) {
  initialize();
  handle_->curl.reset(::curl_easy_init());
  CURL* const curl = handle_->curl.get();
  if (curl == nullptr) throw Error({"start", "libcurl", "there is no memory", ""});
  ::curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, handle_->why.data());
  ::curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // other threads run
  ::curl_easy_setopt(curl, CURLOPT_PROXY, "");
  ::curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  ::curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);  // etcd takes HTTP/2 for gRPC
  ::curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);                       // it waits for no resolver beyond the limit
  ::curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  ::curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take);
  if (!certificates.ca.empty()) ::curl_easy_setopt(curl, CURLOPT_CAINFO, certificates.ca.c_str());
  if (!certificates.own.empty()) ::curl_easy_setopt(curl, CURLOPT_SSLCERT, certificates.own.c_str());
  if (!certificates.key.empty()) ::curl_easy_setopt(curl, CURLOPT_SSLKEY, certificates.key.c_str());
}

HttpClient::~HttpClient() = default;

HttpClient::Reply HttpClient::post(const std::string& url, const std::vector<std::string>& headers,
                                   std::string_view body, std::chrono::milliseconds limit) {
  CURL* const curl = handle_->curl.get();
  std::unique_ptr<curl_slist, ListDeleter> list;
  for (const std::string& header : headers) {
    curl_slist* const longer = ::curl_slist_append(list.get(), header.c_str());
    if (longer == nullptr) return {.status = 0, .body = "there is no memory"};
    (void)list.release();
    list.reset(longer);
  }
  Reply reply;
  handle_->why.front() = '\0';
  ::curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  ::curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list.get());
  ::curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  ::curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  ::curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(limit.count()));
  ::curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply.body);
  const CURLcode code = ::curl_easy_perform(curl);
  ::curl_easy_setopt(curl, CURLOPT_HTTPHEADER, nullptr);
  if (code != CURLE_OK) {
    const char* const why = handle_->why.front() != '\0' ? handle_->why.data() : ::curl_easy_strerror(code);
    return {.status = 0, .body = why};
  }
  ::curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply.status);
  return reply;
}

}  // namespace farside::authority
