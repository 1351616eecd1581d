#include "kv/protocol/terminator.h"

#include <algorithm>
#include <utility>

#include "kv/protocol/messages.h"

namespace farside::kv {

Terminator::Terminator(const Fabric& fabric, Store& store, Requests& servers, ServerNumber self, Duration patience)
    : fabric_(fabric),
      store_(store),
      servers_(servers),
      self_(self),
      patience_(patience),
      questions_(servers.servers()) {}

bool Terminator::step() {
  const bool learnt = take_answers();
  if (fabric_.now() >= next_look_) find_doubtful();
  ask();
  return learnt;
}

// ---- What is to be found out

void Terminator::find_doubtful() {
  const Time now = fabric_.now();
  next_look_ = now + patience_ / 4;
  std::map<Timestamp, std::vector<ServerNumber>> undecided;
  for (Doubtful& each : store_.doubtful(now + -patience_)) {
    if (undecided.size() == kMostAtOnce) break;
    const auto known = undecided_.find(each.timestamp);
    undecided[each.timestamp] = known == undecided_.end() ? others(std::move(each.servers)) : known->second;
  }
  undecided_ = std::move(undecided);  // of the others the client was heard of meanwhile
  std::vector<Timestamp> only_here;
  for (const auto& [transaction, servers] : undecided_) {
    if (servers.empty()) only_here.push_back(transaction);
  }
  for (const Timestamp& transaction : only_here) learn(transaction, self_, Store::Fate::prepared);
}

// The client named them: there may be any.
std::vector<ServerNumber> Terminator::others(std::vector<ServerNumber> servers) const {
  std::ranges::sort(servers);
  servers.erase(std::unique(servers.begin(), servers.end()), servers.end());
  std::erase_if(servers, [this](ServerNumber each) { return each == self_ || each >= questions_.size(); });
  return servers;
}

// ---- Asking

void Terminator::ask() {
  for (const auto& [transaction, servers] : undecided_) {
    for (const ServerNumber server : servers) send(server, transaction);
  }
}

void Terminator::send(ServerNumber server, const Timestamp& about) {
  Question& question = questions_.at(server);
  if (question.about || (question.failed && !is_overdue(question))) return;
  Request request;
  request.kind = RequestKind::fate;
  request.timestamp = about;
  const Outcome sent = servers_.send(server, request.encode(), fabric_.in(kStep));
  question = {.about = about, .since = fabric_.now()};
  if (sent == Outcome::done) return;
  question.about.reset();
  question.failed = true;
}

bool Terminator::is_overdue(const Question& question) const { return fabric_.now() - question.since >= patience_; }

bool Terminator::take_answers() {
  bool learnt = false;
  for (ServerNumber server = 0; server < questions_.size(); ++server) {
    Question& question = questions_[server];
    if (!question.about) continue;
    if (!servers_.has_reply(server) && !is_overdue(question)) continue;
    Message message;
    const Outcome received = servers_.receive(server, message, fabric_.in(kStep));
    const Timestamp about = *std::exchange(question.about, std::nullopt);
    const auto reply = received == Outcome::done ? Reply::decode(message) : std::nullopt;
    question.failed = !reply || reply->kind != RequestKind::fate || reply->answer != Answer::done;
    question.since = fabric_.now();
    if (question.failed) continue;
    learn(about, server, reply->fate);
    learnt = true;
  }
  return learnt;
}

// ---- What is decided

void Terminator::learn(const Timestamp& transaction, ServerNumber from, Store::Fate fate) {
  const auto found = undecided_.find(transaction);
  if (found == undecided_.end()) return;  // the client was heard of
  auto& [_, missing] = *found;
  std::erase(missing, from);
  switch (fate) {
    case Store::Fate::prepared:
      if (!missing.empty()) return;
      (void)store_.commit(transaction);  // prepared everywhere: nobody can have been told anything else
      break;
    case Store::Fate::committed: (void)store_.commit(transaction); break;
    case Store::Fate::aborted: store_.abort(transaction); break;
  }
  undecided_.erase(found);
}

}  // namespace farside::kv
