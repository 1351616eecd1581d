#include "kv/server/terminator.h"

#include <algorithm>
#include <utility>

#include "kv/protocol/messages.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

Terminator::Terminator(const Fabric& fabric, LoggedStore& store, Requests& servers, ServerNumber self,
                       Duration termination_timeout)
    : fabric_(fabric),
      store_(store),
      servers_(servers),
      self_(self),
      termination_timeout_(termination_timeout),
      questions_(servers.servers()) {}

bool Terminator::step() {
  const bool learnt = take_answers();
  if (fabric_.now() >= next_look_) find_undecided();
  ask();
  return learnt;
}

// ---- What is to be found out

void Terminator::find_undecided() {
  const Time now = fabric_.now();
  next_look_ = now + termination_timeout_ / 4;
  std::map<Timestamp, Undecided> undecided;
  add(store_.store().undecided(now + -termination_timeout_), false, undecided);
  add(store_.store().unsettled(now + -termination_timeout_), true, undecided);
  undecided_ = std::move(undecided);  // of the others the client was heard of meanwhile
  for (Question& question : questions_) {
    question.to_ask.clear();
    question.waiting = 0;
  }
  std::vector<Timestamp> only_here;
  for (const auto& [transaction, each] : undecided_) {
    for (const ServerNumber server : each.missing) {
      questions_[server].to_ask.push_back(transaction);
      questions_[server].waiting += each.bytes;
    }
    if (each.missing.empty()) only_here.push_back(transaction);
  }
  for (Question& question : questions_) std::ranges::reverse(question.to_ask);  // the oldest is asked about first
  for (const Timestamp& transaction : only_here) learn(transaction, self_, Fate::prepared);
  limit_what_waits();
}

// A session that knows of a server's silence prepares nothing at the others (atomic_writer.h). But each new one has to
// find out, and what it leaves here would add up for as long as the server is away.
void Terminator::limit_what_waits() {
  const std::uint64_t limit = store_.use().bytes_total / kPartForSilent;
  const auto is_refused = [limit](const Question& each) { return each.is_silent && each.waiting > limit; };
  std::vector<bool> refused;
  if (std::ranges::any_of(questions_, is_refused)) {
    for (const Question& question : questions_) refused.push_back(is_refused(question));
  }
  store_.refuse_prepares_with(std::move(refused));
}

void Terminator::add(std::vector<UnresolvedTransaction> found, bool are_committed,
                     std::map<Timestamp, Undecided>& undecided) const {
  for (UnresolvedTransaction& each : found) {
    const auto known = undecided_.find(each.timestamp);
    const bool is_known = known != undecided_.end() && known->second.is_committed == are_committed;
    undecided.emplace(each.timestamp,
                      is_known ? known->second : Undecided{are_committed, others(std::move(each.servers)), each.bytes});
  }
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
  for (ServerNumber server = 0; server < questions_.size(); ++server) {
    Question& question = questions_[server];
    if (question.about || (question.failed && !is_overdue(question))) continue;
    const auto is_decided = [this](const Timestamp& each) { return !undecided_.contains(each); };
    while (!question.to_ask.empty() && is_decided(question.to_ask.back())) question.to_ask.pop_back();
    if (!question.to_ask.empty()) send(server, question);
  }
}

void Terminator::send(ServerNumber server, Question& question) {
  Request request;
  request.kind = RequestKind::fate;
  request.timestamp = question.to_ask.back();
  question.to_ask.pop_back();
  question.failed = servers_.send(server, request.encode(), fabric_.in(time_limits::kPost)) != Outcome::done;
  question.since = fabric_.now();
  question.is_silent = question.is_silent || question.failed;
  if (!question.failed) question.about = request.timestamp;
}

bool Terminator::is_overdue(const Question& question) const {
  return fabric_.now() - question.since >= termination_timeout_;
}

bool Terminator::take_answers() {
  bool learnt = false;
  for (ServerNumber server = 0; server < questions_.size(); ++server) {
    Question& question = questions_[server];
    if (!question.about) continue;
    if (!servers_.has_reply(server) && !is_overdue(question)) continue;
    const auto received = servers_.receive(server, fabric_.in(time_limits::kPost));
    const Timestamp about = *std::exchange(question.about, std::nullopt);
    const auto reply = received.done() ? Reply::decode(received.value) : std::nullopt;
    question.failed = !reply || reply->kind != RequestKind::fate || reply->answer != Answer::done;
    question.since = fabric_.now();
    question.is_silent = question.failed;
    if (question.failed) continue;
    learn(about, server, reply->fate);
    learnt = true;
  }
  return learnt;
}

// ---- What is decided

void Terminator::learn(const Timestamp& transaction, ServerNumber from, Fate fate) {
  const auto found = undecided_.find(transaction);
  if (found == undecided_.end()) return;  // the client was heard of
  auto& [is_committed, missing, bytes] = found->second;
  if (is_committed && fate == Fate::prepared && from != self_) return;  // it is asked again
  std::erase(missing, from);
  if ((is_committed || fate == Fate::prepared) && !missing.empty()) return;
  if (is_committed) {  // a server that says anything else has forgotten it, since it is settled there
    store_.note_everywhere(transaction);
  } else if (fate == Fate::aborted) {
    store_.abort(transaction);
  } else {  // prepared everywhere: no client can have been told anything else
    store_.commit(transaction);
  }
  undecided_.erase(found);
}

}  // namespace farside::kv
