#include "kv/server/transactions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "kv/protocol/layout.h"

namespace farside::kv {

Transactions::Standing Transactions::standing(const Timestamp& transaction) const {
  if (prepared_.contains(transaction)) return Standing::prepared;
  const auto session = sessions_.find(transaction.session);
  if (session == sessions_.end()) return transaction.time <= forgotten_ ? Standing::barred : Standing::unknown;
  if (transaction.time <= session->second.settled) return Standing::barred;
  const auto ended = session->second.ended.find(transaction.time);
  if (ended != session->second.ended.end()) return ended->second.standing;
  return transaction.time <= session->second.floor ? Standing::barred : Standing::unknown;
}

PreparedHere Transactions::end(const Timestamp& transaction) {
  const auto found = prepared_.find(transaction);
  if (found == prepared_.end()) return {};
  PreparedHere prepared = std::move(found->second);
  prepared_.erase(found);
  return prepared;
}

std::vector<WrittenVersion> Transactions::commit(const Timestamp& transaction, Time now) {
  assert_in_tests(prepared_.contains(transaction), "what is committed is prepared");
  PreparedHere prepared = end(transaction);
  const bool is_alone = prepared.servers.size() <= 1;
  while (!lately_committed_.empty() && is_over(lately_committed_.front().second)) lately_committed_.pop_front();
  if (!is_alone) lately_committed_.emplace_back(now, transaction);
  remember(transaction, {Standing::committed, is_alone, prepared.written, std::move(prepared.servers)});
  return std::move(prepared.written);
}

bool Transactions::is_over(const Timestamp& committed) {
  const Ended* const ended = find_ended(committed);
  return ended == nullptr || ended->everywhere;
}

std::vector<WrittenVersion> Transactions::note_everywhere(const Timestamp& transaction) {
  Ended* ended = find_ended(transaction);
  if (ended == nullptr || std::exchange(ended->everywhere, true)) return {};
  ended->servers = {};
  return ended->written;
}

std::vector<WrittenVersion> Transactions::bar(const Timestamp& transaction) {
  const Standing before = standing(transaction);
  assert_that(before != Standing::committed, "what is committed is never barred");
  if (before != Standing::barred) remember(transaction, {Standing::barred});
  return end(transaction).written;
}

void Transactions::remember(const Timestamp& transaction, Ended ended) {
  Session& session = session_of(transaction.session);
  if (transaction.time <= session.settled) return;
  session.ended.insert_or_assign(session.ended.end(), transaction.time, std::move(ended));
  if (session.ended.size() > session.most_ended) forget_ended(session);
}

// A session settles nothing behind a transaction whose end it cannot learn, while a server is silent. Of what it does
// meanwhile the older half is forgotten; a request of it that comes late is barred.
void Transactions::forget_ended(Session& session) {
  std::size_t left = session.ended.size() - kMaxEnded / 2;
  for (auto ended = session.ended.begin(); ended != session.ended.end() && left != 0; --left) {
    const bool is_over = ended->second.everywhere;
    if (is_over) session.floor = std::max(session.floor, ended->first);
    ended = is_over ? session.ended.erase(ended) : std::next(ended);
  }
  session.most_ended = std::max(kMaxEnded, 2 * session.ended.size());
}

void Transactions::bar_unknown(const Timestamp& up_to) {
  Session& session = session_of(up_to.session);
  session.floor = std::max(session.floor, up_to.time);
}

Transactions::Ended* Transactions::find_ended(const Timestamp& transaction) {
  const auto session = sessions_.find(transaction.session);
  if (session == sessions_.end()) return nullptr;
  const auto ended = session->second.ended.find(transaction.time);
  return ended == session->second.ended.end() ? nullptr : &ended->second;
}

// ---- Sessions

Transactions::Session& Transactions::session_of(std::uint64_t number) {
  if (sessions_.size() >= most_sessions_ && !sessions_.contains(number)) forget_sessions();
  const auto [session, is_new] = sessions_.try_emplace(number);
  if (is_new) session->second.floor = forgotten_;
  return session->second;
}

// Transactions that are forgotten are barred: a session that comes back after that must take a higher timestamp.
void Transactions::forget_sessions() {
  std::erase_if(sessions_, [this](const auto& each) {
    const Session& session = each.second;
    const auto needs_nobody = [](const auto& ended) { return ended.second.everywhere; };
    if (!std::ranges::all_of(session.ended, needs_nobody)) return false;
    const std::uint64_t last = session.ended.empty() ? 0 : session.ended.rbegin()->first;
    forgotten_ = std::max({forgotten_, session.settled, session.floor, last});
    return true;
  });
  most_sessions_ = std::max(kLeastSessions, 2 * sessions_.size());
}

std::vector<Transactions::Settled> Transactions::settle(const Timestamp& up_to) {
  Session& session = session_of(up_to.session);
  session.settled = std::max(session.settled, up_to.time);
  std::vector<Settled> settled;
  while (!session.ended.empty() && session.ended.begin()->first <= session.settled) {
    auto& [time, ended] = *session.ended.begin();
    if (ended.standing == Standing::committed) settled.push_back({{time, up_to.session}, std::move(ended.written)});
    session.ended.erase(session.ended.begin());
  }
  return settled;
}

std::uint64_t Transactions::settled_bits(const Timestamp& transaction) const {
  const auto session = sessions_.find(transaction.session);
  if (session == sessions_.end()) return 0;
  if (transaction.time <= session->second.settled) return RecordHead::kEverywhere | RecordHead::kSettled;
  const auto ended = session->second.ended.find(transaction.time);
  const bool is_known = ended != session->second.ended.end();
  const bool is_everywhere = is_known ? ended->second.everywhere : transaction.time <= session->second.floor;
  return is_everywhere ? RecordHead::kEverywhere : 0;
}

// ---- Of which nothing was heard

std::vector<UnresolvedTransaction> Transactions::undecided(Time before) const {
  std::vector<UnresolvedTransaction> found;
  for (const auto& [timestamp, prepared] : prepared_) {
    if (prepared.since >= before) continue;
    found.push_back({timestamp, prepared.servers});
    for (const WrittenVersion& each : prepared.written) found.back().bytes += each.version.get().place.bytes;
  }
  return found;
}

std::vector<UnresolvedTransaction> Transactions::unsettled(Time before) {
  for (; !lately_committed_.empty() && lately_committed_.front().first < before; lately_committed_.pop_front()) {
    overdue_.push_back(lately_committed_.front().second);
  }
  std::vector<UnresolvedTransaction> found;
  std::erase_if(overdue_, [this, &found](const Timestamp& each) {
    if (is_over(each)) return true;
    found.push_back({each, find_ended(each)->servers});
    return false;
  });
  return found;
}

// ---- What a journal keeps

// A transaction that is barred since its session was forgotten is not known: the order in which sessions were forgotten
// is not kept.
bool Transactions::is_known(const Timestamp& transaction) const {
  if (prepared_.contains(transaction)) return true;
  const auto session = sessions_.find(transaction.session);
  if (session == sessions_.end()) return false;
  return transaction.time <= session->second.settled || session->second.ended.contains(transaction.time);
}

std::vector<WrittenVersion> Transactions::written_by(const Timestamp& transaction) const {
  const auto found = prepared_.find(transaction);
  return found == prepared_.end() ? std::vector<WrittenVersion>() : found->second.written;
}

std::vector<EndedTransactions> Transactions::ended() const {
  std::vector<EndedTransactions> all;
  for (const auto& [number, session] : sessions_) {
    EndedTransactions& one = all.emplace_back(EndedTransactions{number, session.settled, session.floor, {}});
    for (const auto& [time, end] : session.ended) {
      one.since.push_back({time, end.standing == Standing::committed, end.servers});
    }
  }
  return all;
}

void Transactions::note_written(const Timestamp& transaction, const WrittenVersion& written) {
  if (Ended* ended = find_ended(transaction)) ended->written.push_back(written);
}

}  // namespace farside::kv
