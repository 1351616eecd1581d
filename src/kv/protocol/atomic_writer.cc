#include "kv/protocol/atomic_writer.h"

#include <algorithm>

#include "farside/base/error.h"

#include "kv/protocol/siblings.h"

namespace farside::kv {

namespace {

[[noreturn]] void refuse(const std::string& on, const std::string& why, const std::string& remedy) {
  throw UsageError({.tried = "put", .on = on, .why = why, .remedy = remedy});
}

// More than messages.cc takes.
constexpr std::size_t kBytesBesideWrites = 256;
constexpr std::size_t kBytesBesideWrite = 48;

void check(const Write& write) {
  check_key("put", write.key);
  if (write.erase && !write.value.empty()) refuse("an erasing write", "it has a value", "leave the value out");
  if (write.value.size() > kMostValueBytes) {
    refuse("a value of " + std::to_string(write.value.size()) + " bytes", "a value has 16 MiB at most",
           "split the value");
  }
}

/// Of several servers' answers the one that decides: a refusal counts for more than an answer that did not come, since
/// whoever refused has barred the transaction.
int weight(Answer answer) {
  switch (answer) {
    case Answer::done: return 0;
    case Answer::behind:
    case Answer::barred: return 2;
    case Answer::full: return 3;
    case Answer::differs: return 4;
    default: return 1;
  }
}

}  // namespace

PutOutcome AtomicWriter::put_all(std::span<const Write> writes, Deadline deadline) {
  for (const Write& write : writes) {
    check(write);
    if (write.expected) clock_.observe(*write.expected);
  }
  if (writes.empty()) return PutOutcome::done;
  if (writes.size() == 1) return put_one(writes.front(), deadline);
  split(writes);
  return put_parts(deadline);
}

PutOutcome AtomicWriter::put_one(const Write& write, Deadline deadline) {
  const ServerNumber server = server_of(key_id(write.key), requests_.servers());
  for (;;) {
    Request request = Request::by(caller_, RequestKind::put);
    request.writes = {write};
    request.timestamp = last_ = clock_.next();
    const bool is_sent = requests_.send(server, request.encode(), deadline) == Outcome::done;
    const Answer answer = is_sent ? ask(server, deadline) : Answer::unknown;
    if (answer == Answer::unknown) {
      note_doubt();
      return PutOutcome::unknown;
    }
    note_end(request.timestamp);
    if (answer == Answer::done) return PutOutcome::done;
    if (answer == Answer::full) return PutOutcome::full;
    if (answer == Answer::differs) return PutOutcome::differs;
  }
}

// Before anything is sent: otherwise a server's answer would be left for whoever asks it next.
void AtomicWriter::check_bytes() const {
  for (const ServerNumber server : servers_) {
    std::size_t bytes = kBytesBesideWrites + keys_.size() * sizeof(KeyId) + servers_.size() * sizeof(ServerNumber);
    for (const Write& write : parts_[server]) bytes += kBytesBesideWrite + write.key.size() + write.value.size();
    if (bytes > kMostMessageBytes) {
      refuse("several keys", "what one server gets of them is over 64 MiB", "put fewer or smaller values at once");
    }
  }
}

void AtomicWriter::split(std::span<const Write> writes) {
  for (auto& part : parts_) part.clear();
  servers_.clear();
  keys_.clear();
  for (const Write& write : writes) {
    keys_.push_back(key_id(write.key));
    const ServerNumber server = server_of(keys_.back(), requests_.servers());
    if (parts_[server].empty()) servers_.push_back(server);
    parts_[server].push_back(write);
  }
  std::ranges::sort(keys_);
  if (std::ranges::adjacent_find(keys_) != keys_.end()) {
    refuse("several keys", "one of them stands there twice", "name each key once");
  }
  check_bytes();
}

PutOutcome AtomicWriter::put_parts(Deadline deadline) {
  for (;;) {
    const Timestamp timestamp = last_ = clock_.next();
    const Answer answer = prepare(timestamp, deadline);
    if (answer == Answer::unknown) {
      note_doubt();
      return PutOutcome::unknown;
    }
    if (answer == Answer::done) {
      if (!tell(RequestKind::commit, timestamp, deadline)) {
        note_doubt();
        return PutOutcome::unknown;
      }
      note_end(timestamp);
      return PutOutcome::done;
    }
    give_up(timestamp, deadline);
    if (answer == Answer::full) return PutOutcome::full;
    if (answer == Answer::differs) return PutOutcome::differs;
  }
}

Answer AtomicWriter::prepare(const Timestamp& timestamp, Deadline deadline) {
  const auto siblings = make_siblings(siblings_, keys_);
  Request request = Request::by(caller_, RequestKind::prepare);
  request.timestamp = timestamp;
  request.siblings = {siblings_, siblings};
  request.servers = servers_;
  Answer worst = Answer::done;
  std::vector<ServerNumber> asked;
  for (const ServerNumber server : servers_) {
    request.writes = parts_[server];
    if (requests_.send(server, request.encode(), deadline) == Outcome::done) {
      asked.push_back(server);
    } else {
      worst = Answer::unknown;
    }
  }
  if (!rules_.commits_after_all_prepared) (void)tell(RequestKind::commit, timestamp, deadline);
  for (const ServerNumber server : asked) worst = std::ranges::max(worst, ask(server, deadline), {}, weight);
  return worst;
}

Answer AtomicWriter::ask(ServerNumber server, Deadline deadline) {
  Message bytes;
  if (requests_.receive(server, bytes, deadline) != Outcome::done) return Answer::unknown;
  const auto reply = Reply::decode(bytes);
  if (!reply) return Answer::unknown;
  clock_.observe(reply->newest);
  return reply->answer;
}

bool AtomicWriter::tell(RequestKind kind, const Timestamp& timestamp, Deadline deadline) {
  Request request = Request::by(caller_, kind);
  request.timestamp = timestamp;
  const Message message = request.encode();
  bool all = true;
  std::vector<ServerNumber> told;
  for (const ServerNumber server : servers_) {
    if (requests_.send(server, message, deadline) == Outcome::done) {
      told.push_back(server);
    } else {
      all = false;
    }
  }
  for (const ServerNumber server : told) all = (ask(server, deadline) == Answer::done) && all;
  return all;
}

void AtomicWriter::give_up(const Timestamp& timestamp, Deadline deadline) {
  if (tell(RequestKind::abort, timestamp, deadline)) {
    note_end(timestamp);
  } else {
    note_doubt();
  }
}

void AtomicWriter::note_end(const Timestamp& timestamp) {
  if (!in_doubt_) caller_.settled = timestamp.time;
}

}  // namespace farside::kv
