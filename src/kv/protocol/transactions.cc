#include "kv/protocol/transactions.h"

#include <algorithm>
#include <utility>

namespace farside::kv {

Transactions::Standing Transactions::standing(const Timestamp& transaction) const {
  if (prepared_.contains(transaction)) return Standing::prepared;
  const auto session = sessions_.find(transaction.session);
  if (session == sessions_.end()) return Standing::unknown;
  if (transaction.time <= session->second.settled) return Standing::barred;
  const auto ended = session->second.ended.find(transaction.time);
  return ended == session->second.ended.end() ? Standing::unknown : ended->second.standing;
}

std::vector<KeyId> Transactions::end(const Timestamp& transaction) {
  const auto found = prepared_.find(transaction);
  if (found == prepared_.end()) return {};
  std::vector<KeyId> keys = std::move(found->second.keys);
  prepared_.erase(found);
  return keys;
}

std::vector<KeyId> Transactions::commit(const Timestamp& transaction) {
  std::vector<KeyId> keys = end(transaction);
  remember(transaction, {Standing::committed, keys});
  return keys;
}

std::vector<KeyId> Transactions::bar(const Timestamp& transaction) {
  remember(transaction, {Standing::barred, {}});
  return end(transaction);
}

void Transactions::remember(const Timestamp& transaction, Ended ended) {
  Session& session = sessions_[transaction.session];
  if (transaction.time <= session.settled) return;
  session.ended.insert_or_assign(session.ended.end(), transaction.time, std::move(ended));
}

bool Transactions::is_settled(const Timestamp& transaction) const {
  const auto session = sessions_.find(transaction.session);
  return session != sessions_.end() && transaction.time <= session->second.settled;
}

std::vector<Transactions::Settled> Transactions::settle(const Timestamp& up_to) {
  Session& session = sessions_[up_to.session];
  session.settled = std::max(session.settled, up_to.time);
  std::vector<Settled> settled;
  while (!session.ended.empty() && session.ended.begin()->first <= session.settled) {
    auto& [time, ended] = *session.ended.begin();
    if (ended.standing == Standing::committed) settled.push_back({{time, up_to.session}, std::move(ended.keys)});
    session.ended.erase(session.ended.begin());
  }
  return settled;
}

std::vector<Doubtful> Transactions::doubtful(Time before) const {
  std::vector<Doubtful> found;
  for (const auto& [timestamp, prepared] : prepared_) {
    if (prepared.since < before) found.push_back({timestamp, prepared.servers});
  }
  return found;
}

}  // namespace farside::kv
