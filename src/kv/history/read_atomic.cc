#include "kv/history/read_atomic.h"

#include "kv/history/precedence_graph.h"

namespace farside::kv {

namespace {

HistoryAnomaly::Kind kind_of(PrecedenceReason strictest) {
  switch (strictest) {
    case PrecedenceReason::session_order:
    case PrecedenceReason::read_from: return HistoryAnomaly::Kind::circular_flow;
    case PrecedenceReason::atomicity: return HistoryAnomaly::Kind::fractured_read;
    case PrecedenceReason::own_writes: return HistoryAnomaly::Kind::own_write_missed;
    case PrecedenceReason::monotonic_reads: break;
  }
  return HistoryAnomaly::Kind::non_monotonic_read;
}

}  // namespace

std::optional<HistoryAnomaly> check_read_atomic(const History& history) {
  const HistoryAccesses accesses(history);
  if (accesses.anomaly()) return accesses.anomaly();
  const PrecedenceGraph graph(history, accesses);
  using enum PrecedenceReason;
  if (!graph.cycle(monotonic_reads)) return std::nullopt;
  // An anomaly is named after the last thing that had to be asked for until there was a cycle.
  for (const PrecedenceReason strictest : {read_from, atomicity, own_writes, monotonic_reads}) {
    const auto cycle = graph.cycle(strictest);
    if (!cycle) continue;
    HistoryAnomaly anomaly{kind_of(strictest), {}};
    for (const Precedence& precedence : *cycle) anomaly.evidence.push_back(describe(history, accesses, precedence));
    return anomaly;
  }
  return std::nullopt;
}

}  // namespace farside::kv
