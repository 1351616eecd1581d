// locking_session.h — strict two-phase locking, what RAMP is compared with: the client. All servers that have part in a
// transaction are asked at the same time. No session waits for a lock: a session that is refused one releases all its
// locks, and tries again after a pause of random length, so there is no deadlock (NO_WAIT).
//
// Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "farside/fabric/fabric.h"
#include "farside/kv/types.h"

#include "kv/protocol/messages.h"

namespace farside::kv_baselines {

class LockingSession {
 public:
  /// Returns the writes, given what was read.
  using Modify = std::function<std::vector<kv::Write>(std::span<const kv::Got> got)>;

  /// `number`: given once among all sessions. `requests` outlive it.
  LockingSession(Fabric& fabric, kv::Requests& requests, std::uint64_t number);

  // done; timed_out, when locks were refused until then, too; peer_lost. After a request failed a write may have been
  // made, and the session is of no more use.

  /// Returns an entry for each key, without versions. The entries are the session's, valid until its next call.
  Result<std::span<const kv::Got>> get_all(std::span<const std::string_view> keys, Deadline deadline);
  Outcome put_all(std::span<const kv::Write> writes, Deadline deadline);
  /// Reads and writes in one transaction.
  Outcome modify_all(std::span<const std::string_view> keys, const Modify& modify, Deadline deadline);

 private:
  Outcome transact(std::span<const std::string_view> keys, const Modify& modify, Deadline deadline);
  Outcome try_once(std::span<const std::string_view> keys, const Modify& modify, Deadline deadline);
  Outcome read(std::span<const std::string_view> keys, Deadline deadline);
  Outcome lock_writes(std::span<const kv::Write> writes, Deadline deadline);
  /// To each server that has part in the transaction.
  Outcome end(kv::RequestKind kind, Deadline deadline);
  Outcome send(kv::ServerNumber server, const kv::Request& request, Deadline deadline);
  Result<kv::Message> receive(kv::ServerNumber server, Deadline deadline);
  [[nodiscard]] kv::Request request(kv::RequestKind kind) const;

  struct Part {
    std::vector<std::size_t> keys;  ///< their places among those of the transaction
    kv::Message reply;              ///< with the values read
    bool takes_part = false;
    unsigned unanswered = 0;  ///< requests whose reply is not awaited
  };

  Fabric& fabric_;
  kv::Requests& requests_;
  const std::uint64_t number_;
  std::vector<Part> parts_;  // by server
  std::vector<kv::Got> got_;
  bool refused_ = false;  ///< a lock
  bool broken_ = false;   ///< which replies are still to come is not known
};

}  // namespace farside::kv_baselines
