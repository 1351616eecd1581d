// Several puts that have nothing to do with each other, under way at once: AtomicWriter::put_each.
//
// They differ from as many calls of put_all by the order of their messages alone: all prepares are sent before the
// first answer is waited for, and then all commits; and what goes to one server at the same time is one message. Until
// the last of them has ended the session says of none that it is settled.
#include <algorithm>
#include <utility>

#include "kv/client/atomic_writer.h"
#include "kv/protocol/siblings.h"

namespace farside::kv {

void AtomicWriter::put_each(std::span<IndependentPut> puts, Deadline deadline) {
  std::vector<UnderWay> together;
  std::vector<IndependentPut*> alone;
  ids_.clear();
  for (IndependentPut& put : puts) {
    const std::size_t first_id = ids_.size();
    check_all(put.writes);
    check_parts(put.writes, std::span(ids_).subspan(first_id));
    put.outcome = PutOutcome::done;
    if (put.writes.empty()) continue;
    if (has_silent_server(std::span(ids_).subspan(first_id))) {
      alone.push_back(&put);
    } else {
      together.push_back({&put, first_id});
    }
  }
  doubts_.look_into();
  put_together(together, deadline);
  for (IndependentPut* put : alone) {  // as put_all does it what others have prepared does not pile up
    put->outcome = put_all(put->writes, deadline);
    put->version = last_;
  }
}

bool AtomicWriter::has_silent_server(std::span<const KeyId> ids) const {
  return std::ranges::any_of(ids,
                             [this](const KeyId& id) { return parts_[server_of(id, requests_.servers())].is_silent; });
}

void AtomicWriter::put_together(std::vector<UnderWay>& puts, Deadline deadline) {
  while (!puts.empty()) {
    for (UnderWay& put : puts) begin(put, deadline);
    ask_all(deadline);
    for (UnderWay& put : puts) end(put, deadline);
    ask_all(deadline);
    std::erase_if(puts, [this](const UnderWay& put) { return is_over(put); });
    doubts_.note_end(last_.time);
  }
}

void AtomicWriter::begin(UnderWay& put, Deadline deadline) {
  const std::span<const Write> writes = put.put->writes;
  put.put->version = last_ = clock_.next();
  put.prepared = put.ended = Answer::done;
  split(writes, std::span(ids_).subspan(put.first_id, writes.size()));
  put.servers = servers_;
  if (is_whole()) return add(servers_.front(), encode_whole(writes), put.prepared, deadline);
  const auto siblings = make_siblings(siblings_kind(), keys_);
  Request request = Request::by(caller_, RequestKind::prepare);
  request.timestamp = last_;
  request.siblings = {siblings_kind(), siblings};
  request.servers = servers_;
  for (const ServerNumber server : put.servers) {
    request.writes = parts_[server].writes;
    add(server, request.encode(), put.prepared, deadline);
  }
}

// A put at one server has ended when it is answered. What may be prepared everywhere the servers end.
void AtomicWriter::end(UnderWay& put, Deadline deadline) {
  if (put.servers.size() == 1 || put.prepared == Answer::unknown) return;
  Request request = Request::by(caller_, put.prepared == Answer::done ? RequestKind::commit : RequestKind::abort);
  request.timestamp = put.put->version;
  const Message message = request.encode();
  for (const ServerNumber server : put.servers) add(server, message, put.ended, deadline);
}

bool AtomicWriter::is_over(const UnderWay& put) {
  PutOutcome& outcome = put.put->outcome;
  const bool is_committed = put.prepared == Answer::done && put.ended == Answer::done;
  const bool is_doubtful = put.prepared == Answer::unknown || (put.prepared == Answer::done && !is_committed);
  const bool is_noted = put.servers.size() > 1 || rules_.doubts_puts_at_one_server;
  if (is_doubtful && is_noted) doubts_.note(put.put->version, put.servers);
  outcome = is_committed ? PutOutcome::done : PutOutcome::unknown;
  if (is_committed || is_doubtful) return true;
  const auto refused = refusal(put.prepared);
  if (refused) outcome = *refused;
  return refused.has_value();
}

// ---- What goes to one server goes there together

void AtomicWriter::add(ServerNumber server, Message message, Answer& answer, Deadline deadline) {
  Together& together = together_[server];
  if (together.bytes + message.size() > kMaxBytesTogether) send(server, deadline);
  together.bytes += message.size();
  together.requests.push_back(std::move(message));
  together.answers.push_back(&answer);
}

void AtomicWriter::send(ServerNumber server, Deadline deadline) {
  Together together = std::exchange(together_[server], {});
  if (together.requests.empty()) return;
  bool is_asked = false;
  if (together.requests.size() == 1) {
    is_asked = ask(server, together.requests.front(), deadline);
  } else {
    Request several{.kind = RequestKind::several};
    several.parts.assign(together.requests.begin(), together.requests.end());
    is_asked = ask(server, several.encode(), deadline);
  }
  if (is_asked) {
    asked_.push_back({server, std::move(together.answers)});
    return;
  }
  for (Answer* answer : together.answers) count(Answer::unknown, *answer);
}

void AtomicWriter::ask_all(Deadline deadline) {
  for (ServerNumber server = 0; server < together_.size(); ++server) send(server, deadline);
  for (const Asked& asked : asked_) take_answers(asked, deadline);
  asked_.clear();
}

void AtomicWriter::take_answers(const Asked& asked, Deadline deadline) {
  const auto reply = receive(asked.server, deadline);
  if (asked.answers.size() == 1) return count(take(reply), *asked.answers.front());
  const bool are_all_answered = reply && reply->parts.size() == asked.answers.size();
  for (std::size_t i = 0; i < asked.answers.size(); ++i) {
    count(take(are_all_answered ? Reply::decode(reply->parts[i]) : std::nullopt), *asked.answers[i]);
  }
}

}  // namespace farside::kv
