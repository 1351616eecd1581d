// precedence_graph.h — all precedences of a history. It has an order of commits as long as they form no cycle.
#pragma once

#include <optional>
#include <vector>

#include "kv/history/precedence.h"

namespace farside::kv {

class PrecedenceGraph {
 public:
  /// Both must outlive it.
  PrecedenceGraph(const History& history, const HistoryAccesses& accesses);

  /// A cycle of precedences whose reasons are `strictest` and what stands before it. Each begins where the one before
  /// it ends; session orders that follow each other are one. Of the cycles through its first precedence there is none
  /// with fewer steps from session to session. Takes time linear in operations and precedences.
  [[nodiscard]] std::optional<std::vector<Precedence>> cycle(PrecedenceReason strictest) const;

 private:
  /// How many precedences end at a transaction, and each of them.
  [[nodiscard]] std::size_t count(HistoryIndex after) const;
  [[nodiscard]] Precedence precedence(HistoryIndex after, std::size_t number) const;

  [[nodiscard]] std::optional<Precedence> on_a_cycle(PrecedenceReason strictest) const;
  [[nodiscard]] std::vector<Precedence> way_back(const Precedence& from, PrecedenceReason strictest) const;

  const HistoryAccesses& accesses_;
  std::vector<HistoryIndex> session_predecessors_;  ///< the initial values' is the initial values
  std::vector<Precedence> inferred_;                ///< by their ends
  std::vector<std::size_t> first_inferred_;
};

}  // namespace farside::kv
