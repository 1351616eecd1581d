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

  /// Returns about `about` keys that begin with `prefix`, from `cursor` on, which is 0 at first. A key that is there
  /// from the first call to the last is found, perhaps twice.
  Result<Scanned> scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Deadline deadline);
  /// Returns the memory use of each server, by number.
  Result<std::vector<MemoryUse>> use(Deadline deadline);

 private:
  /// A cursor is a server's number above its own cursor, which counts buckets of its index.
  static constexpr unsigned kServersCursorBits = 40;

  /// Adds to what was scanned.
  Outcome scan_on(Request& request, Scanned& scanned, Deadline deadline);
  /// Returns the reply, valid until the next call.
  Result<Reply> ask(ServerNumber server, const Request& request, Deadline deadline);

  Requests& requests_;
  const Caller& caller_;
  Message bytes_;  // of the latest reply
};

}  // namespace farside::kv
