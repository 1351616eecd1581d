// pulse.h — which servers answer: each is asked a little, and its answer is not waited for.
//
// Thread safety: one thread at a time. Nothing else is asked by the same requests.
#pragma once

#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/protocol/caller.h"
#include "kv/protocol/requests.h"

namespace farside::kv {

class Pulse {
 public:
  Pulse(const Fabric& fabric, Requests& requests, const Caller& caller)
      : fabric_(fabric), requests_(requests), caller_(caller), asked_(requests.servers()) {}

  /// Session::hear.
  [[nodiscard]] std::vector<bool> hear();

 private:
  [[nodiscard]] bool has_answered(ServerNumber server);

  const Fabric& fabric_;
  Requests& requests_;
  const Caller& caller_;
  std::vector<bool> asked_;  // by server: it owes an answer
};

}  // namespace farside::kv
