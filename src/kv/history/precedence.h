// precedence.h — which transaction must have taken effect before which, and why.
#pragma once

#include <string>
#include <vector>

#include "kv/history/accesses.h"

namespace farside::kv {

/// In the order in which a check asks for them: one that asks for atomicity also asks for what stands before it.
enum class PrecedenceReason : std::uint8_t {
  session_order,    ///< one session did both; or `before` is the initial values
  read_from,        ///< `after` saw a write of `before`
  atomicity,        ///< `reader` saw a write of `before`, and of `key`, which both wrote, that of `after`
  own_writes,       ///< `reader`, whose session did `before`, saw of `key`, which both wrote, the write of `after`
  monotonic_reads,  ///< `reader`, whose session saw the write of `before` to `key` before, saw that of `after`
};

struct Precedence {
  HistoryIndex before;
  HistoryIndex after;
  PrecedenceReason reason;
  HistoryIndex reader;
  HistoryIndex earlier;  ///< saw the write of `before`
  std::uint64_t key;     ///< of which `reader` saw the write of `after`
};

/// Those of the last three reasons; of what a session wrote and saw, only those that others do not imply. Takes
/// O(n^1.5 log n) for n operations at worst: of a transaction's reads and the writes of one that it read from, the
/// fewer are looked up in the more.
[[nodiscard]] std::vector<Precedence> infer_precedences(const History& history, const HistoryAccesses& accesses);

/// As a sentence.
[[nodiscard]] std::string describe(const History& history, const HistoryAccesses& accesses,
                                   const Precedence& precedence);

}  // namespace farside::kv
