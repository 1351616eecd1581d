#include "kv_baselines/locking/locking_session.h"

#include <algorithm>
#include <utility>

namespace farside::kv_baselines {

namespace {

using kv::ServerNumber;

constexpr Duration kFirstPause = std::chrono::microseconds(20);
constexpr unsigned kMaxDoublings = 6;

}  // namespace

LockingSession::LockingSession(Fabric& fabric, kv::Requests& requests, std::uint64_t number)
    : fabric_(fabric), requests_(requests), number_(number), parts_(requests.servers()) {}

Result<std::span<const kv::Got>> LockingSession::get_all(std::span<const std::string_view> keys, Deadline deadline) {
  const Outcome outcome = transact(keys, {}, deadline);
  return {outcome, got_};
}

Outcome LockingSession::put_all(std::span<const kv::Write> writes, Deadline deadline) {
  return transact(
      {}, [writes](auto) { return std::vector<kv::Write>(writes.begin(), writes.end()); }, deadline);
}

Outcome LockingSession::modify_all(std::span<const std::string_view> keys, const Modify& modify, Deadline deadline) {
  return transact(keys, modify, deadline);
}

Outcome LockingSession::transact(std::span<const std::string_view> keys, const Modify& modify, Deadline deadline) {
  for (unsigned tries = 0; !broken_; ++tries) {
    refused_ = false;
    Outcome outcome = try_once(keys, modify, deadline);
    if (outcome == Outcome::done && !refused_) return outcome;
    const Outcome ended = end(kv::RequestKind::abort, deadline);
    if (outcome == Outcome::done) outcome = ended;
    broken_ = outcome != Outcome::done;
    if (broken_) return outcome;
    if (fabric_.now() >= deadline.at) return Outcome::timed_out;
    const Duration longest = kFirstPause * (1U << std::min(tries, kMaxDoublings));
    fabric_.sleep(longest * (fabric_.random() % 1024) / 1024);
  }
  return Outcome::peer_lost;
}

Outcome LockingSession::try_once(std::span<const std::string_view> keys, const Modify& modify, Deadline deadline) {
  for (Part& part : parts_) part.takes_part = false;
  const Outcome was_read = read(keys, deadline);
  if (was_read != Outcome::done || refused_) return was_read;
  if (!modify)
    return end(kv::RequestKind::commit, deadline);  // all locks are held: no need to wait until they are gone
  const Outcome locked = lock_writes(modify(got_), deadline);
  if (locked != Outcome::done || refused_) return locked;
  Outcome outcome = end(kv::RequestKind::commit, deadline);
  for (ServerNumber server = 0; server < parts_.size() && outcome == Outcome::done; ++server) {
    if (!parts_[server].takes_part) continue;
    --parts_[server].unanswered;
    outcome = receive(server, deadline).status;
  }
  return outcome;
}

Outcome LockingSession::read(std::span<const std::string_view> keys, Deadline deadline) {
  got_.assign(keys.size(), {});
  for (Part& part : parts_) part.keys.clear();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    parts_[kv::server_of(kv::key_id(keys[i]), requests_.servers())].keys.push_back(i);
  }
  kv::Request get = request(kv::RequestKind::get);
  for (ServerNumber server = 0; server < parts_.size(); ++server) {
    if (parts_[server].keys.empty()) continue;
    get.keys.clear();
    for (const std::size_t key : parts_[server].keys) get.keys.push_back(keys[key]);
    if (const Outcome sent = send(server, get, deadline); sent != Outcome::done) return sent;
  }
  for (ServerNumber server = 0; server < parts_.size(); ++server) {
    Part& part = parts_[server];
    if (part.keys.empty()) continue;
    auto received = receive(server, deadline);
    if (!received.done()) return received.status;
    part.reply = std::move(received.value);
    const auto reply = kv::Reply::decode(part.reply);
    if (!reply) return Outcome::peer_lost;
    refused_ = refused_ || reply->answer != kv::Answer::done || reply->versions.size() != part.keys.size();
    for (std::size_t i = 0; i < part.keys.size() && !refused_; ++i) {
      const auto value = reply->versions[i].record;
      got_[part.keys[i]].present = reply->versions[i].generation != 0;
      got_[part.keys[i]].value = {static_cast<const char*>(static_cast<const void*>(value.data())), value.size()};
    }
  }
  return Outcome::done;
}

Outcome LockingSession::lock_writes(std::span<const kv::Write> writes, Deadline deadline) {
  std::vector<kv::Request> prepares(parts_.size(), request(kv::RequestKind::prepare));
  for (const kv::Write& write : writes) {
    prepares[kv::server_of(kv::key_id(write.key), requests_.servers())].writes.push_back(write);
  }
  for (ServerNumber server = 0; server < parts_.size(); ++server) {
    if (prepares[server].writes.empty()) continue;
    if (const Outcome sent = send(server, prepares[server], deadline); sent != Outcome::done) return sent;
  }
  for (ServerNumber server = 0; server < parts_.size(); ++server) {
    if (prepares[server].writes.empty()) continue;
    const auto received = receive(server, deadline);
    if (!received.done()) return received.status;
    const auto reply = kv::Reply::decode(received.value);
    if (!reply) return Outcome::peer_lost;
    refused_ = refused_ || reply->answer != kv::Answer::done;
  }
  return Outcome::done;
}

Outcome LockingSession::end(kv::RequestKind kind, Deadline deadline) {
  Outcome outcome = Outcome::done;
  for (ServerNumber server = 0; server < parts_.size(); ++server) {
    if (!parts_[server].takes_part) continue;
    const Outcome sent = send(server, request(kind), deadline);
    if (sent == Outcome::done) {
      ++parts_[server].unanswered;
    } else {
      outcome = sent;
    }
  }
  return outcome;
}

Outcome LockingSession::send(ServerNumber server, const kv::Request& request, Deadline deadline) {
  parts_[server].takes_part = true;
  return requests_.send(server, request.encode(), deadline);
}

// Replies come in the order of the requests.
Result<kv::Message> LockingSession::receive(ServerNumber server, Deadline deadline) {
  for (; parts_[server].unanswered != 0; --parts_[server].unanswered) {
    if (auto skipped = requests_.receive(server, deadline); !skipped.done()) return skipped;
  }
  return requests_.receive(server, deadline);
}

kv::Request LockingSession::request(kv::RequestKind kind) const {
  kv::Request made;
  made.kind = kind;
  made.session = number_;
  made.timestamp = {1, number_};  // locks say what comes first
  return made;
}

}  // namespace farside::kv_baselines
