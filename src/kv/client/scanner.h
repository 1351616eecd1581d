// scanner.h — what a session asks of all servers in turn: which keys there are, and how much memory they take.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kv/protocol/caller.h"
#include "kv/protocol/messages.h"

namespace farside::kv {

class Scanner {
 public:
  Scanner(Requests& requests, const Caller& caller) : requests_(requests), caller_(caller) {}

  /// About `about` keys that begin with `prefix`, from `cursor` on, which is 0 at first. A key that is there from the
  /// first call to the last is found, perhaps twice.
  Outcome scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Scanned& scanned, Deadline deadline);
  /// Reports the memory use of each server.
  Outcome use(std::vector<MemoryUse>& servers, Deadline deadline);

 private:
  /// A cursor is a server's number above its own cursor, which counts buckets of its index.
  static constexpr unsigned kServersCursorBits = 40;

  Outcome scan_on(Request& request, Scanned& scanned, Deadline deadline);
  /// On done `reply` is valid until the next call.
  Outcome ask(ServerNumber server, const Request& request, Reply& reply, Deadline deadline);

  Requests& requests_;
  const Caller& caller_;
  Message bytes_;
};

}  // namespace farside::kv
