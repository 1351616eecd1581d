// request_source.h — reading by asking the servers (GET, GET+).
#pragma once

#include <span>
#include <vector>

#include "kv/client/search.h"
#include "kv/protocol/caller.h"
#include "kv/protocol/messages.h"

namespace farside::kv {

class RequestSource final : public VersionSource {
 public:
  /// Its `find` throws UsageError when one server's part is more than a message holds.
  RequestSource(Requests& requests, const Caller& caller) : requests_(requests), caller_(caller) {
    parts_.resize(requests.servers());
  }

  Outcome find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) override;

 private:
  Outcome ask(std::span<const Timestamp> candidates, Deadline deadline);
  Outcome take_reply(ServerNumber server, Deadline deadline);

  Requests& requests_;
  const Caller& caller_;
  std::vector<std::vector<Search*>> parts_;  // by server
  bool refused_ = false;                     ///< what was asked for is more than a message holds
};

}  // namespace farside::kv
