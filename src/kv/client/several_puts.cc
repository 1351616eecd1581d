// Several puts that have nothing to do with each other, under way at once: AtomicWriter::put_each.
//
// They differ from as many calls of put_all by the order of their messages alone: all prepares are sent before the
// first answer is waited for; and what goes to one server at the same time is one message. A put ends when the servers
// have answered that have part in it, whether or not others have. Until the last of them has ended the session says of
// none that it is settled.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "kv/client/atomic_writer.h"
#include "kv/protocol/siblings.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

void AtomicWriter::put_each(std::span<IndependentPut> puts, Deadline deadline, const PutEnded& ended) {
  std::vector<UnderWay> together;
  std::vector<IndependentPut*> alone;
  ids_.clear();
  for (IndependentPut& put : puts) {
    const std::size_t first_id = ids_.size();
    check_all(put.writes);
    check_parts(put.writes, std::span(ids_).subspan(first_id));
    if (!put.writes.empty() && has_silent_server(std::span(ids_).subspan(first_id))) {
      alone.push_back(&put);
    } else {
      together.push_back({&put, first_id});
    }
  }
  in_doubt_.look_into();
  put_together(together, deadline, ended);
  for (IndependentPut* put : alone) {  // as put_all does it what others have prepared does not pile up
    put->outcome = put_all(put->writes, deadline);
    put->version = last_;
    ended(*put);
  }
}

bool AtomicWriter::has_silent_server(std::span<const KeyId> ids) const {
  return std::ranges::any_of(ids,
                             [this](const KeyId& id) { return parts_[server_of(id, requests_.servers())].is_silent; });
}

void AtomicWriter::put_together(std::span<UnderWay> puts, Deadline deadline, const PutEnded& ended) {
  for (std::size_t left = puts.size(); left > 0;) {
    for (UnderWay& put : puts) {
      if (put.unanswered > 0 || put.stage == UnderWay::Stage::over) continue;
      advance(put, deadline);
      if (put.stage != UnderWay::Stage::over) continue;
      --left;
      ended(*put.put);
    }
    for (ServerNumber server = 0; server < together_.size(); ++server) send(server, deadline);
    take_answers(deadline);
  }
  if (!puts.empty()) in_doubt_.note_end(last_.time);
}

void AtomicWriter::advance(UnderWay& put, Deadline deadline) {
  using Stage = UnderWay::Stage;
  if (put.stage == Stage::preparing) {
    put.stage = Stage::ending;
    end(put, deadline);
  }
  if (put.stage == Stage::ending && put.unanswered == 0) put.stage = conclude(put) ? Stage::over : Stage::to_begin;
  if (put.stage == Stage::to_begin) {
    put.stage = Stage::preparing;
    begin(put, deadline);
  }
}

void AtomicWriter::begin(UnderWay& put, Deadline deadline) {
  const std::span<const Write> writes = put.put->writes;
  put.put->version = last_ = clock_.next();
  put.prepared = put.ended = Answer::done;
  split(writes, std::span(ids_).subspan(put.first_id, writes.size()));
  put.servers = servers_;
  if (put.servers.empty()) return;
  if (is_whole()) return add(servers_.front(), encode_whole(writes), put, deadline);
  const auto siblings = make_siblings(siblings_kind(), keys_);
  Request request = Request::by(caller_, RequestKind::prepare);
  request.timestamp = last_;
  request.siblings = {siblings_kind(), siblings};
  request.servers = servers_;
  for (const ServerNumber server : put.servers) {
    request.writes = parts_[server].writes;
    add(server, request.encode(), put, deadline);
  }
}

// A put at one server has ended when it is answered. What may be prepared everywhere the servers end.
void AtomicWriter::end(UnderWay& put, Deadline deadline) {
  if (put.servers.size() <= 1 || put.prepared == Answer::unknown) return;
  Request request = Request::by(caller_, put.prepared == Answer::done ? RequestKind::commit : RequestKind::abort);
  request.timestamp = put.put->version;
  const Message message = request.encode();
  for (const ServerNumber server : put.servers) add(server, message, put, deadline);
}

bool AtomicWriter::conclude(const UnderWay& put) {
  PutOutcome& outcome = put.put->outcome;
  const bool is_committed = put.prepared == Answer::done && put.ended == Answer::done;
  const bool is_in_doubt = put.prepared == Answer::unknown || (put.prepared == Answer::done && !is_committed);
  const bool is_noted = put.servers.size() > 1 || rules_.keeps_puts_at_one_server_in_doubt;
  if (is_in_doubt && is_noted) in_doubt_.note(put.put->version, put.servers);
  outcome = is_committed ? PutOutcome::done : PutOutcome::unknown;
  if (is_committed || is_in_doubt) return true;
  const auto refused = refusal(put.prepared);
  if (refused) outcome = *refused;
  return refused.has_value();
}

// ---- What goes to one server goes there together

void AtomicWriter::add(ServerNumber server, Message message, UnderWay& put, Deadline deadline) {
  Together& together = together_[server];
  if (together.bytes + message.size() > kMaxBytesTogether) send(server, deadline);
  together.bytes += message.size();
  together.requests.push_back(std::move(message));
  together.puts.push_back(&put);
  ++put.unanswered;
}

void AtomicWriter::send(ServerNumber server, Deadline deadline) {
  Together& together = together_[server];
  if (together.requests.empty()) return;
  const std::vector<Message> requests = std::exchange(together.requests, {});
  std::vector<UnderWay*> puts = std::exchange(together.puts, {});
  together.bytes = 0;
  bool is_asked = false;
  if (requests.size() == 1) {
    is_asked = ask(server, requests.front(), deadline);
  } else {
    Request several{.kind = RequestKind::several};
    several.parts.assign(requests.begin(), requests.end());
    is_asked = ask(server, several.encode(), deadline);
  }
  if (is_asked) return together.unanswered.push_back(std::move(puts));
  for (UnderWay* put : puts) count(Answer::unknown, *put);
}

// A server that does not answer keeps the puts that need it waiting, and the others for one slice of time.
void AtomicWriter::take_answers(Deadline deadline) {
  const Deadline slice{std::min(deadline.at, fabric_.in(time_limits::kReplySlice).at)};
  for (ServerNumber server = 0; server < together_.size(); ++server) {
    const auto& unanswered = together_[server].unanswered;
    while (!unanswered.empty()) {
      if (requests_.await(server, slice) == Outcome::timed_out && slice.at < deadline.at) break;
      take_oldest(server, deadline);
    }
  }
}

void AtomicWriter::take_oldest(ServerNumber server, Deadline deadline) {
  auto& unanswered = together_[server].unanswered;
  const std::vector<UnderWay*> puts = std::move(unanswered.front());
  unanswered.pop_front();
  const auto reply = receive(server, deadline);
  if (puts.size() == 1) return count(take(reply), *puts.front());
  const bool are_all_answered = reply && reply->parts.size() == puts.size();
  for (std::size_t i = 0; i < puts.size(); ++i) {
    count(take(are_all_answered ? Reply::decode(reply->parts[i]) : std::nullopt), *puts[i]);
  }
}

void AtomicWriter::count(Answer answer, UnderWay& put) {
  assert_that(put.unanswered > 0, "each request has one answer");
  --put.unanswered;
  Answer& worst = put.stage == UnderWay::Stage::preparing ? put.prepared : put.ended;
  worst = std::ranges::max(worst, answer, {}, weight);
}

}  // namespace farside::kv
