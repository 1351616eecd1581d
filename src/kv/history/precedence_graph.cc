#include "kv/history/precedence_graph.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "base/assert.h"

namespace farside::kv {

namespace {

/// Aborted transactions stand in no order. Those of unknown outcome may take effect later than what their session does
/// next, so that nothing follows them.
std::vector<HistoryIndex> session_predecessors(const History& history) {
  using enum HistoryTransaction::Outcome;
  std::vector<HistoryIndex> predecessors(history.transactions.size(), kInitialValues);
  HistoryIndex last = kInitialValues;
  for (HistoryIndex each = 1; each < predecessors.size(); ++each) {
    const HistoryTransaction& transaction = history.transactions[each];
    if (transaction.session != history.transactions[each - 1].session) last = kInitialValues;
    if (transaction.outcome != aborted) predecessors[each] = last;
    if (transaction.outcome == committed) last = each;
  }
  return predecessors;
}

}  // namespace

PrecedenceGraph::PrecedenceGraph(const History& history, const HistoryAccesses& accesses)
    : accesses_(accesses),
      session_predecessors_(session_predecessors(history)),
      inferred_(infer_precedences(history, accesses)) {
  std::ranges::stable_sort(inferred_, {}, &Precedence::after);
  std::size_t next = 0;
  for (HistoryIndex after = 0; after <= history.transactions.size(); ++after) {
    while (next < inferred_.size() && inferred_[next].after < after) ++next;
    first_inferred_.push_back(next);
  }
}

std::size_t PrecedenceGraph::count(HistoryIndex after) const {
  const std::size_t sessions = after == kInitialValues ? 0 : 1;
  return sessions + accesses_.reads(after).size() + first_inferred_[after + 1] - first_inferred_[after];
}

Precedence PrecedenceGraph::precedence(HistoryIndex after, std::size_t number) const {
  if (after != kInitialValues) {
    if (number == 0) return {session_predecessors_[after], after, PrecedenceReason::session_order, after, after, 0};
    --number;
  }
  const auto reads = accesses_.reads(after);
  if (number < reads.size()) {
    const auto& [key, writer] = reads[number];
    return {writer, after, PrecedenceReason::read_from, after, after, key};
  }
  return inferred_[first_inferred_[after] + number - reads.size()];
}

/// Depth first, from each transaction to what must come before it. A transaction that is met again on the way closes a
/// cycle.
std::optional<Precedence> PrecedenceGraph::on_a_cycle(PrecedenceReason strictest) const {
  enum class State : std::uint8_t { unseen, on_path, done };
  struct Step {
    HistoryIndex transaction;
    std::size_t next = 0;
  };
  std::vector<State> states(session_predecessors_.size(), State::unseen);
  std::vector<Step> path;
  const auto enter = [&](HistoryIndex transaction) {
    states[transaction] = State::on_path;
    path.push_back({transaction});
  };
  for (HistoryIndex start = 0; start < states.size(); ++start) {
    if (states[start] == State::unseen) enter(start);
    while (!path.empty()) {
      auto& [transaction, next] = path.back();
      if (next == count(transaction)) {
        states[transaction] = State::done;
        path.pop_back();
        continue;
      }
      const Precedence found = precedence(transaction, next++);
      if (found.reason > strictest || states[found.before] == State::done) continue;
      if (states[found.before] == State::unseen) {
        enter(found.before);
        continue;
      }
      // The precedence of the cycle with the strictest reason tells most.
      Precedence telling = found;
      for (auto step = path.rbegin() + 1; step != path.rend() && (step - 1)->transaction != found.before; ++step) {
        const Precedence taken = precedence(step->transaction, step->next - 1);
        if (taken.reason > telling.reason) telling = taken;
      }
      return telling;
    }
  }
  return std::nullopt;
}

/// From where `from` ends to where it begins, with the fewest steps that are no session order.
std::vector<Precedence> PrecedenceGraph::way_back(const Precedence& from, PrecedenceReason strictest) const {
  std::unordered_map<HistoryIndex, Precedence> onward;  // of each transaction reached, the first step to from.before
  std::deque<Precedence> nearest_first;
  const auto spread = [&](HistoryIndex after) {
    for (std::size_t number = 0; number < count(after); ++number) {
      const Precedence found = precedence(after, number);
      if (found.reason > strictest) continue;
      if (found.reason == PrecedenceReason::session_order) {
        nearest_first.push_front(found);
      } else {
        nearest_first.push_back(found);
      }
    }
  };
  spread(from.before);
  while (!onward.contains(from.after)) {
    assert_that(!nearest_first.empty(), "a precedence that is on a cycle has a way back");
    const Precedence step = nearest_first.front();
    nearest_first.pop_front();
    if (onward.emplace(step.before, step).second) spread(step.before);
  }
  std::vector<Precedence> way;
  for (HistoryIndex at = from.after; at != from.before; at = way.back().after) way.push_back(onward.at(at));
  return way;
}

std::optional<std::vector<Precedence>> PrecedenceGraph::cycle(PrecedenceReason strictest) const {
  const std::optional<Precedence> start = on_a_cycle(strictest);
  if (!start) return std::nullopt;
  std::vector<Precedence> cycle{*start};
  for (const Precedence& step : way_back(*start, strictest)) {
    const bool same_session = step.reason == PrecedenceReason::session_order && cycle.back().reason == step.reason;
    if (same_session) {
      cycle.back().after = step.after;
    } else {
      cycle.push_back(step);
    }
  }
  return cycle;
}

}  // namespace farside::kv
