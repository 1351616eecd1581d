#include "kv/protocol/requests.h"

#include <string>

#include "farside/base/error.h"

namespace farside::kv {

void check_request_bytes(ServerNumber server, std::size_t bytes) {
  if (bytes <= kMaxMessageBytes) return;
  throw UsageError(
      {"send a request", "server " + std::to_string(server),
       "it has " + std::to_string(bytes) + " bytes, and at most " + std::to_string(kMaxMessageBytes) + " can be sent",
       "write fewer or smaller values at once"});
}

}  // namespace farside::kv
