#include "kv/client/doubts.h"

#include <algorithm>

#include "base/assert.h"
#include "kv/protocol/messages.h"

namespace farside::kv {

namespace {
constexpr int kPartOfGrace = 100;
}

void Doubts::note(const Timestamp& transaction, const std::vector<ServerNumber>& servers) {
  // Several puts that are under way at once end in any order.
  const auto is_before = [](const Timestamp& each, const Doubt& other) { return each < other.transaction; };
  doubts_.insert(std::upper_bound(doubts_.begin(), doubts_.end(), transaction, is_before), {transaction, servers});
  for (const ServerNumber server : servers) ++servers_[server].doubts;
}

void Doubts::remove(const std::deque<Doubt>::iterator& doubt) {
  for (const ServerNumber server : doubt->servers) {
    std::size_t& doubts = servers_[server].doubts;
    assert_that(doubts != 0, "each doubt is counted at all its servers");
    --doubts;
  }
  doubts_.erase(doubt);
}

void Doubts::note_end(std::uint64_t time) {
  caller_.settled = doubts_.empty() ? time : std::min(time, doubts_.front().transaction.time - 1);
}

void Doubts::look_into() {
  if (doubts_.empty() || fabric_.now() < next_look_) return;
  next_look_ = fabric_.now() + grace_;
  while (!doubts_.empty() && is_over(ask_about(doubts_.front()))) remove(doubts_.begin());
}

bool Doubts::are_many_at(ServerNumber server) const {
  const auto found = servers_.find(server);
  return found != servers_.end() && found->second.doubts >= kMax;
}

bool Doubts::does_answer(ServerNumber server) {
  Server& asked = servers_[server];
  if (fabric_.now() < asked.next_look) return false;
  asked.next_look = fabric_.now() + grace_;
  const auto has_part = [server](const Doubt& each) {
    return std::ranges::find(each.servers, server) != each.servers.end();
  };
  const auto doubt = std::ranges::find_if(doubts_, has_part);
  if (doubt == doubts_.end()) return false;
  const Fates fates = ask_about(*doubt);
  const bool answers =
      fates.at(static_cast<std::size_t>(std::ranges::find(doubt->servers, server) - doubt->servers.begin()))
          .has_value();
  if (is_over(fates)) remove(doubt);
  return answers;
}

Doubts::Fates Doubts::ask_about(const Doubt& doubt) {
  const Deadline deadline = fabric_.in(grace_ / kPartOfGrace);
  Request request = Request::by(caller_, RequestKind::fate);
  request.timestamp = doubt.transaction;
  const Message message = request.encode();
  std::vector<bool> is_asked;
  for (const ServerNumber server : doubt.servers) {
    is_asked.push_back(requests_.send(server, message, deadline) == Outcome::done);
  }
  Fates fates(doubt.servers.size());
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (!is_asked[i]) continue;
    const auto received = requests_.receive(doubt.servers[i], deadline);
    const auto reply = received.done() ? Reply::decode(received.value) : std::nullopt;
    if (reply && reply->kind == RequestKind::fate && reply->answer == Answer::done) fates[i] = reply->fate;
  }
  return fates;
}

bool Doubts::is_over(const Fates& fates) {
  const auto is_committed = [](const auto& fate) { return fate == Fate::committed; };
  return std::ranges::find(fates, Fate::aborted) != fates.end() || std::ranges::all_of(fates, is_committed);
}

}  // namespace farside::kv
