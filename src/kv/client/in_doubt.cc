#include "kv/client/in_doubt.h"

#include <algorithm>

#include "base/assert.h"
#include "kv/protocol/messages.h"

namespace farside::kv {

namespace {
constexpr int kPartOfGrace = 100;
}

void InDoubtTransactions::note(const Timestamp& transaction, const std::vector<ServerNumber>& servers) {
  // Several puts that are under way at once end in any order.
  const auto is_before = [](const Timestamp& each, const Transaction& other) { return each < other.timestamp; };
  in_doubt_.insert(std::upper_bound(in_doubt_.begin(), in_doubt_.end(), transaction, is_before),
                   {transaction, servers});
  for (const ServerNumber server : servers) ++servers_[server].in_doubt;
}

void InDoubtTransactions::remove(const std::deque<Transaction>::iterator& entry) {
  for (const ServerNumber server : entry->servers) {
    std::size_t& count = servers_[server].in_doubt;
    assert_that(count != 0, "each transaction is counted at all its servers");
    --count;
  }
  in_doubt_.erase(entry);
}

void InDoubtTransactions::note_end(std::uint64_t time) {
  caller_.settled = in_doubt_.empty() ? time : std::min(time, in_doubt_.front().timestamp.time - 1);
}

void InDoubtTransactions::look_into() {
  if (in_doubt_.empty() || fabric_.now() < next_look_) return;
  next_look_ = fabric_.now() + grace_;
  while (!in_doubt_.empty() && is_over(ask_about(in_doubt_.front()))) remove(in_doubt_.begin());
}

bool InDoubtTransactions::are_many_at(ServerNumber server) const {
  const auto found = servers_.find(server);
  return found != servers_.end() && found->second.in_doubt >= kMax;
}

bool InDoubtTransactions::does_answer(ServerNumber server) {
  Server& asked = servers_[server];
  if (fabric_.now() < asked.next_look) return false;
  asked.next_look = fabric_.now() + grace_;
  const auto has_part = [server](const Transaction& each) {
    return std::ranges::find(each.servers, server) != each.servers.end();
  };
  const auto entry = std::ranges::find_if(in_doubt_, has_part);
  if (entry == in_doubt_.end()) return false;
  const Fates fates = ask_about(*entry);
  const bool answers =
      fates.at(static_cast<std::size_t>(std::ranges::find(entry->servers, server) - entry->servers.begin()))
          .has_value();
  if (is_over(fates)) remove(entry);
  return answers;
}

InDoubtTransactions::Fates InDoubtTransactions::ask_about(const Transaction& entry) {
  const Deadline deadline = fabric_.in(grace_ / kPartOfGrace);
  Request request = Request::by(caller_, RequestKind::fate);
  request.timestamp = entry.timestamp;
  const Message message = request.encode();
  std::vector<bool> is_asked;
  for (const ServerNumber server : entry.servers) {
    is_asked.push_back(requests_.send(server, message, deadline) == Outcome::done);
  }
  Fates fates(entry.servers.size());
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (!is_asked[i]) continue;
    const auto received = requests_.receive(entry.servers[i], deadline);
    const auto reply = received.done() ? Reply::decode(received.value) : std::nullopt;
    if (reply && reply->kind == RequestKind::fate && reply->answer == Answer::done) fates[i] = reply->fate;
  }
  return fates;
}

bool InDoubtTransactions::is_over(const Fates& fates) {
  const auto is_committed = [](const auto& fate) { return fate == Fate::committed; };
  return std::ranges::find(fates, Fate::aborted) != fates.end() || std::ranges::all_of(fates, is_committed);
}

}  // namespace farside::kv
