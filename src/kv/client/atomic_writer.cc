#include "kv/client/atomic_writer.h"

#include <algorithm>
#include <functional>
#include <tuple>

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

std::size_t bytes_in_message(const Write& write) { return kBytesBesideWrite + write.key.size() + write.value.size(); }

std::size_t bytes_beside_writes(std::size_t keys, std::size_t servers) {
  return kBytesBesideWrites + keys * sizeof(KeyId) + servers * sizeof(ServerNumber);
}

void check(const Write& write) {
  check_key("put", write.key);
  if (write.erase && !write.value.empty()) refuse("an erasing write", "it has a value", "leave the value out");
  if (write.value.size() > kMaxValueBytes) {
    refuse("a value of " + std::to_string(write.value.size()) + " bytes", "a value has 16 MiB at most",
           "split the value");
  }
}

}  // namespace

int AtomicWriter::weight(Answer answer) {
  switch (answer) {
    case Answer::done: return 0;
    case Answer::behind:
    case Answer::barred: return 2;
    case Answer::full:
    case Answer::unwritable:
    case Answer::too_few_copies: return 3;
    case Answer::differs: return 4;
    default: return 1;
  }
}

std::optional<PutOutcome> AtomicWriter::refusal(Answer answer) {
  switch (answer) {
    case Answer::full: return PutOutcome::full;
    case Answer::unwritable: return PutOutcome::unwritable;
    case Answer::too_few_copies: return PutOutcome::too_few_copies;
    case Answer::differs: return PutOutcome::differs;
    default: return std::nullopt;
  }
}

void AtomicWriter::check_all(std::span<const Write> writes) {
  for (const Write& write : writes) {
    check(write);
    if (write.expected) clock_.observe(*write.expected);
  }
  const std::size_t before = ids_.size();
  for (const Write& write : writes) ids_.push_back(key_id(write.key));
  sorted_.assign(ids_.begin() + static_cast<std::ptrdiff_t>(before), ids_.end());
  std::ranges::sort(sorted_);
  if (std::ranges::adjacent_find(sorted_) != sorted_.end()) {
    refuse("several keys", "one of them stands there twice", "name each key once");
  }
}

// Checks all puts before the first is sent. One that fits a message as a whole need not be split.
void AtomicWriter::check_parts(std::span<const Write> writes, std::span<const KeyId> ids) {
  std::size_t bytes = bytes_beside_writes(writes.size(), writes.size());
  for (const Write& write : writes) bytes += bytes_in_message(write);
  if (bytes > kMaxMessageBytes) split(writes, ids);
}

PutOutcome AtomicWriter::put_all(std::span<const Write> writes, Deadline deadline) {
  ids_.clear();
  check_all(writes);
  if (writes.empty()) return PutOutcome::done;
  in_doubt_.look_into();
  split(writes, ids_);
  if (!may_ask_servers()) return PutOutcome::unwritable;
  return is_whole() ? put_whole(servers_.front(), writes, deadline) : put_parts(deadline);
}

// One that is silent may leave one more in doubt.
bool AtomicWriter::may_ask_servers() {
  return std::ranges::all_of(servers_, [this](ServerNumber server) {
    Part& part = parts_[server];
    if (part.is_silent && in_doubt_.are_many_at(server)) part.is_silent = !in_doubt_.does_answer(server);
    return !part.is_silent || !in_doubt_.are_many_at(server);
  });
}

// No reader asks for the siblings of a put of one key.
Message AtomicWriter::encode_whole(std::span<const Write> writes) const {
  const bool has_siblings = writes.size() > 1 && rules_.names_siblings_at_one_server;
  const SiblingsKind kind = has_siblings ? siblings_kind() : SiblingsKind::list;
  const auto siblings = has_siblings ? make_siblings(kind, keys_) : std::vector<std::byte>();
  Request request = Request::by(caller_, RequestKind::put);
  request.timestamp = last_;
  request.siblings = {kind, siblings};
  request.writes.assign(writes.begin(), writes.end());
  return request.encode();
}

PutOutcome AtomicWriter::put_whole(ServerNumber server, std::span<const Write> writes, Deadline deadline) {
  for (;;) {
    last_ = clock_.next();
    const bool is_asked = ask(server, encode_whole(writes), deadline);
    const Answer answer = is_asked ? take(receive(server, deadline)) : Answer::unknown;
    // The server may still do it. Other servers would say by their marks that it is over.
    if (answer == Answer::unknown && rules_.keeps_puts_at_one_server_in_doubt) in_doubt_.note(last_, servers_);
    in_doubt_.note_end(last_.time);
    if (answer == Answer::unknown) return PutOutcome::unknown;
    if (answer == Answer::done) return PutOutcome::done;
    if (const auto refused = refusal(answer)) return *refused;
  }
}

void AtomicWriter::split(std::span<const Write> writes, std::span<const KeyId> ids) {
  for (Part& part : parts_) {
    part.writes.clear();
    part.bytes = 0;
  }
  servers_.clear();
  keys_.assign(ids.begin(), ids.end());
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const Write& write = writes[i];
    const ServerNumber server = server_of(ids[i], requests_.servers());
    if (parts_[server].writes.empty()) servers_.push_back(server);
    parts_[server].writes.push_back(write);
    parts_[server].bytes += bytes_in_message(write);
  }
  order_servers();
}

// Servers that did not answer last time come first: the others are asked only when these have prepared, and so do not
// stay prepared. Then the server with the largest part: the smaller parts are not prepared for long by the time that it
// has the large one.
void AtomicWriter::order_servers() {
  const std::size_t beside = bytes_beside_writes(keys_.size(), servers_.size());
  for (const ServerNumber server : servers_) {
    // Before anything is sent: otherwise a server's answer would be left for the next request to it.
    if (beside + parts_[server].bytes <= kMaxMessageBytes) continue;
    refuse("several keys", "what one server gets of them is over 64 MiB", "put fewer or smaller values at once");
  }
  std::ranges::sort(servers_, std::greater(), [this](ServerNumber server) {
    return std::tuple(parts_[server].is_silent, parts_[server].bytes, server);
  });
}

// Each version carries it: a list of many is more to store than most values.
SiblingsKind AtomicWriter::siblings_kind() const {
  constexpr std::size_t kMaxListed = 8;
  return siblings_.value_or(keys_.size() <= kMaxListed ? SiblingsKind::list : SiblingsKind::filter);
}

PutOutcome AtomicWriter::put_parts(Deadline deadline) {
  for (;;) {
    const Timestamp timestamp = last_ = clock_.next();
    const Answer answer = prepare(timestamp, deadline);
    if (answer == Answer::unknown) {
      in_doubt_.note_end(timestamp.time);
      return PutOutcome::unknown;
    }
    if (answer == Answer::done) {
      const bool is_committed = tell(RequestKind::commit, timestamp, deadline);
      if (!is_committed) in_doubt_.note(timestamp, servers_);
      in_doubt_.note_end(timestamp.time);
      return is_committed ? PutOutcome::done : PutOutcome::unknown;
    }
    (void)tell(RequestKind::abort, timestamp,
               deadline);  // a server that misses it asks the one that has refused
    in_doubt_.note_end(timestamp.time);
    if (const auto refused = refusal(answer)) return *refused;
  }
}

Answer AtomicWriter::prepare(const Timestamp& timestamp, Deadline deadline) {
  const auto siblings = make_siblings(siblings_kind(), keys_);
  Request request = Request::by(caller_, RequestKind::prepare);
  request.timestamp = timestamp;
  request.siblings = {siblings_kind(), siblings};
  request.servers = servers_;
  const auto is_silent = [this](ServerNumber server) { return parts_[server].is_silent; };
  const std::span servers(servers_);
  const auto silent = static_cast<std::size_t>(std::ranges::find_if_not(servers, is_silent) - servers.begin());
  Answer worst = silent == 0 ? Answer::done : prepare_at(servers.first(silent), request, deadline);
  const bool are_all_asked = worst == Answer::done || silent == servers_.size();
  if (worst == Answer::done) worst = prepare_at(servers.subspan(silent), request, deadline);
  if (worst == Answer::unknown && are_all_asked) in_doubt_.note(timestamp, servers_);  // else it can be nowhere whole
  return worst;
}

Answer AtomicWriter::prepare_at(std::span<const ServerNumber> servers, Request& request, Deadline deadline) {
  Answer worst = Answer::done;
  std::vector<ServerNumber> asked;
  for (const ServerNumber server : servers) {
    request.writes = parts_[server].writes;
    if (ask(server, request.encode(), deadline)) {
      asked.push_back(server);
    } else {
      worst = Answer::unknown;
    }
  }
  if (!rules_.commits_after_all_prepared) (void)tell(RequestKind::commit, request.timestamp, deadline);
  for (const ServerNumber server : asked) worst = std::ranges::max(worst, take(receive(server, deadline)), {}, weight);
  return worst;
}

bool AtomicWriter::ask(ServerNumber server, const Message& request, Deadline deadline) {
  const bool is_asked = requests_.send(server, request, deadline) == Outcome::done;
  if (!is_asked) parts_[server].is_silent = true;
  return is_asked;
}

std::optional<Reply> AtomicWriter::receive(ServerNumber server, Deadline deadline) {
  auto received = requests_.receive(server, deadline);
  parts_[server].is_silent = !received.done();
  if (!received.done()) return std::nullopt;
  reply_ = std::move(received.value);
  return Reply::decode(reply_);
}

Answer AtomicWriter::take(const std::optional<Reply>& reply) {
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
  for (const ServerNumber server : told) all = (take(receive(server, deadline)) == Answer::done) && all;
  return all;
}

}  // namespace farside::kv
