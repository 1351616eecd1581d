// The public client (include/farside/kv/client.h). Stands alone: it hides all of this folder.
#include "farside/kv/client.h"

#include <string>
#include <vector>

#include "farside/base/error.h"

#include "kv/service/service_client.h"
#include "net/runtime_dir.h"
#include "service/service_socket.h"

namespace farside::kv {

Client::Client(const ClientOptions& options) : time_out_(options.time_out) {
  const std::filesystem::path pool = options.runtime_dir.empty() ? net::runtime_dir() : options.runtime_dir;
  const auto servers =
      options.server.empty() ? service::service_sockets(pool, kServiceName) : std::vector{options.server};
  if (servers.empty()) {
    throw Error(
        {"find a key-value store in", pool, "none has a server on this machine",
         "start one with farside up --kv SIZE; where a pool with one runs already (farside status) its nodes here are "
         "starting: try again, or name a server elsewhere with --server"});
  }
  links_ = std::make_unique<ServiceClient>(
      servers, net::Secret::load(options.secret.empty() ? pool / "secret" : options.secret), time_out_);
}

Client::~Client() = default;

std::vector<std::uint32_t> Client::copies() { return links_->copies(time_out_); }

std::chrono::milliseconds Client::longest_silence() const { return links_->longest_silence(); }

std::unique_ptr<Session> Client::open_session(const SessionOptions& options) {
  return links_->open_session(options, time_out_);
}

}  // namespace farside::kv
