// atomic_reader.h — reading a set of keys so that of each transaction all is seen or nothing, and nothing that the
// session has seen goes back (docs/protocols/kv.md, "Reading a set of keys").
//
// Thread safety: one thread at a time.
#pragma once

#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/client/search.h"
#include "kv/protocol/caller.h"
#include "kv/protocol/messages.h"
#include "kv/protocol/rules.h"

namespace farside::kv {

class AtomicReader {
 public:
  /// `grace`: what the servers' is at least.
  AtomicReader(const Fabric& fabric, VersionSource& source, Requests& requests, const Caller& caller, Duration grace,
               const KvRules& rules = {})
      : fabric_(fabric), source_(source), requests_(requests), caller_(caller), grace_(grace), rules_(rules) {}

  /// Returns what was found of the keys, in their order; valid until the next call. Throws UsageError on what is no
  /// key.
  Result<std::span<const Search>> get_all(std::span<const std::string_view> keys, Deadline deadline);

 private:
  static constexpr std::size_t kMaxSeen = 64;
  static constexpr std::size_t kMaxUnsettled = 4096;  ///< while a server does not answer
  static constexpr std::size_t kSettledAtOnce = 64;
  static constexpr int kSettlePart = 100;  ///< of the grace time, that a server is waited for

  /// A version that the session has read while some of its siblings may not have been committed.
  struct Seen {
    Timestamp timestamp;
    SiblingsKind kind;
    std::vector<std::byte> siblings;
  };
  /// A key that is to be read again, and why.
  struct Again {
    Search* search;
    Timestamp before;  ///< what was found
    Timestamp due;     ///< what there is for certain
  };

  /// A key that is absent, and what its server had forgotten when it said so.
  struct Absent {
    const Search* search;
    Timestamp forgotten;

    friend bool operator==(const Absent&, const Absent&) = default;
  };

  /// Returns whether what was found is whole: of each transaction all or nothing.
  Result<bool> try_once(Deadline deadline);
  /// Returns whether all that is absent was so already when this was asked last: only then is what was found whole.
  Result<bool> confirm_absent(Deadline deadline);
  void look_for_siblings();
  /// `self`: whose version it is; null when it was read before.
  void look_for_siblings_of(const Timestamp& timestamp, SiblingsKind kind, std::span<const std::byte> siblings,
                            const KeyId* self);
  [[nodiscard]] bool is_right(const Again& again) const;
  Outcome remember(Deadline deadline);
  /// Has the servers commit the transactions that were seen longest ago, so that they need not be remembered.
  void settle_some(Deadline deadline);
  /// False: a server that may have part in it has not said that it is committed there.
  [[nodiscard]] bool is_settled(const Seen& seen, Deadline deadline);
  [[nodiscard]] bool is_ended_at(ServerNumber server, Outcome sent, Deadline deadline);
  /// All that have part in it.
  [[nodiscard]] std::vector<ServerNumber> servers_of(const Seen& seen) const;

  const Fabric& fabric_;
  VersionSource& source_;
  Requests& requests_;
  const Caller& caller_;
  Duration grace_;
  KvRules rules_;
  std::vector<Search> searches_;  // kept for their buffers
  std::vector<Search*> wanted_;
  std::vector<Absent> absent_;
  std::vector<Again> again_;
  std::vector<Search*> again_wanted_;
  std::vector<Timestamp> candidates_;
  std::vector<Timestamp> due_;       // by key
  std::vector<Timestamp> possible_;  // by key
  std::deque<Seen> seen_;            // the next to be settled first
  std::vector<Time> unresponsive_;   // by server: until then it is not asked to settle anything
};

}  // namespace farside::kv
