// atomic_writer.h — writing a set of keys so that everybody sees all of it or nothing (docs/protocols/kv.md, "Writing a
// set of keys").
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/protocol/caller.h"
#include "kv/protocol/messages.h"
#include "kv/protocol/rules.h"

namespace farside::kv {

class AtomicWriter {
 public:
  AtomicWriter(Requests& requests, HybridClock& clock, Caller& caller, SiblingsKind siblings, const KvRules& rules = {})
      : requests_(requests), clock_(clock), caller_(caller), siblings_(siblings), rules_(rules) {
    parts_.resize(requests.servers());
  }

  /// Of conditional writes (Write::expected) all are as expected, or nothing is written. Who is told that it differs
  /// may read again and try again, after a while: somebody else may be at it.
  /// Throws UsageError when a key stands twice, a key or a value is too long or too short, or one server would get more
  /// than a message holds.
  PutOutcome put_all(std::span<const Write> writes, Deadline deadline);
  /// What the latest put was, or tried to be, last.
  [[nodiscard]] const Timestamp& last() const noexcept { return last_; }

 private:
  PutOutcome put_one(const Write& write, Deadline deadline);
  PutOutcome put_parts(Deadline deadline);
  Answer prepare(const Timestamp& timestamp, Deadline deadline);
  bool tell(RequestKind kind, const Timestamp& timestamp, Deadline deadline);
  [[nodiscard]] Answer ask(ServerNumber server, Deadline deadline);
  void give_up(const Timestamp& timestamp, Deadline deadline);
  void note_end(const Timestamp& timestamp);
  void note_doubt() { in_doubt_ = true; }
  void split(std::span<const Write> writes);
  void check_bytes() const;

  Requests& requests_;
  HybridClock& clock_;
  Caller& caller_;
  SiblingsKind siblings_;
  KvRules rules_;
  Timestamp last_;
  bool in_doubt_ = false;  ///< of some transaction it is not known what became of it: nothing is settled any more
  std::vector<std::vector<Write>> parts_;  // by server
  std::vector<ServerNumber> servers_;      // that have a part
  std::vector<KeyId> keys_;
};

}  // namespace farside::kv
