#include "kv/client/atomic_reader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "kv/protocol/siblings.h"

namespace farside::kv {

namespace {

/// The transaction is committed there now (with `too_few_copies`: as surely as anything is that the server has), or was
/// and is forgotten, or that server has no part in it.
bool is_ended(const Message& reply_to_commit) {
  const auto reply = Reply::decode(reply_to_commit);
  return reply && (reply->answer == Answer::done || reply->answer == Answer::too_few_copies ||
                   reply->answer == Answer::barred || reply->answer == Answer::unknown);
}

}  // namespace

Result<std::span<const Search>> AtomicReader::get_all(std::span<const std::string_view> keys, Deadline deadline) {
  for (const std::string_view key : keys) check_key("get", key);
  if (searches_.size() < keys.size()) searches_.resize(keys.size());
  wanted_.clear();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    searches_[i].key = keys[i];
    searches_[i].id = key_id(keys[i]);
    wanted_.push_back(&searches_[i]);
  }
  absent_.clear();
  for (Result<bool> is_whole{}; !is_whole.value;) {
    if (fabric_.now() >= deadline.at) return {Outcome::timed_out, {}};
    const Time began = fabric_.now();
    is_whole = try_once(deadline);
    const bool is_quick = fabric_.now() - began <= grace_ / 2;
    if (is_whole.done() && is_whole.value && !is_quick) is_whole = confirm_absent(deadline);
    if (!is_whole.done()) return {is_whole.status, {}};
  }
  const Outcome outcome = rules_.remembers_what_was_seen ? remember(deadline) : Outcome::done;
  return {outcome, std::span(searches_).first(wanted_.size())};
}

// An absent key names no siblings. But if it was absent before the others were looked for and is so afterwards, and its
// server has forgotten no key in between, then they were found as its eraser left them, or later.
Result<bool> AtomicReader::confirm_absent(Deadline deadline) {
  const std::vector<Absent> before = std::exchange(absent_, {});
  again_wanted_.clear();
  for (Search* search : wanted_) {
    if (!search->found) again_wanted_.push_back(search);
  }
  if (again_wanted_.empty()) return {Outcome::done, true};
  constexpr Timestamp kNone{};  // no version has it: so the server is asked, and says what it has forgotten
  const Outcome outcome = source_.find(again_wanted_, {&kNone, 1}, deadline);
  if (outcome != Outcome::done) return {outcome, false};
  bool was_absent = true;
  for (const Search* search : again_wanted_) {
    const Absent now{search, search->forgotten};
    if (!search->found) absent_.push_back(now);
    was_absent = was_absent && !search->found && std::ranges::find(before, now) != before.end();
  }
  return {Outcome::done, was_absent};
}

Result<bool> AtomicReader::try_once(Deadline deadline) {
  const Outcome first = source_.find(wanted_, {}, deadline);
  if (first != Outcome::done || !rules_.looks_at_siblings) return {first, true};
  look_for_siblings();
  if (again_.empty()) return {Outcome::done, true};
  again_wanted_.clear();
  for (const Again& again : again_) again_wanted_.push_back(again.search);
  const Outcome second = source_.find(again_wanted_, candidates_, deadline);
  if (second != Outcome::done) return {second, false};
  return {Outcome::done, std::ranges::all_of(again_, [this](const Again& again) { return is_right(again); })};
}

void AtomicReader::look_for_siblings() {
  again_.clear();
  candidates_.clear();
  if (wanted_.size() == 1 && seen_.empty()) return;
  due_.assign(wanted_.size(), {});
  possible_.assign(wanted_.size(), {});
  for (const Search* search : wanted_) {
    if (!search->found) continue;
    const Record& record = search->record;
    look_for_siblings_of(search->timestamp, record.head.siblings_kind, record.siblings, &search->id);
  }
  for (const Seen& seen : seen_) look_for_siblings_of(seen.timestamp, seen.kind, seen.siblings, nullptr);
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    Search& search = *wanted_[i];
    if (std::max(due_[i], possible_[i]) > search.timestamp) again_.push_back({&search, search.timestamp, due_[i]});
  }
}

void AtomicReader::look_for_siblings_of(const Timestamp& timestamp, SiblingsKind kind,
                                        std::span<const std::byte> siblings, const KeyId* self) {
  candidates_.push_back(timestamp);
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const bool is_self = self != nullptr && *self == wanted_[i]->id;  // a key may be asked for twice
    if (timestamp <= wanted_[i]->timestamp || !(is_self || may_name(kind, siblings, wanted_[i]->id))) continue;
    Timestamp& highest = is_self || kind == SiblingsKind::list ? due_[i] : possible_[i];
    highest = std::max(highest, timestamp);
  }
}

bool AtomicReader::is_right(const Again& again) const {
  if (!rules_.wants_the_very_version) return true;
  const Timestamp& now = again.search->timestamp;
  if (now == again.before && again.due <= now) return true;  // it was named by mistake
  if (!again.search->found) return again.search->forgotten >= again.due && again.before == Timestamp{};
  return now >= std::max(again.before, again.due) && std::ranges::find(candidates_, now) != candidates_.end();
}

// A get whose versions cannot all be remembered fails, though what it has read is right: a later one might go back.
Outcome AtomicReader::remember(Deadline deadline) {
  bool is_all_remembered = true;
  for (const Search* search : wanted_) {
    if (!search->found) continue;
    const Record& record = search->record;
    if ((record.head.mark & RecordHead::kSettled) != 0) {
      std::erase_if(seen_, [&](const Seen& seen) {
        return seen.timestamp.session == search->timestamp.session && seen.timestamp <= search->timestamp;
      });
      continue;
    }
    if ((record.head.mark & RecordHead::kEverywhere) != 0) {
      std::erase_if(seen_, [&](const Seen& seen) { return seen.timestamp == search->timestamp; });
      continue;
    }
    const bool is_alone = record.head.siblings_kind == SiblingsKind::list && record.siblings.size() <= sizeof(KeyId);
    const bool is_known = std::ranges::find(seen_, search->timestamp, &Seen::timestamp) != seen_.end();
    if (is_alone || is_known) continue;
    is_all_remembered = seen_.size() < kMaxUnsettled;
    if (!is_all_remembered) break;
    seen_.push_back({search->timestamp, record.head.siblings_kind, {record.siblings.begin(), record.siblings.end()}});
  }
  settle_some(deadline);
  return is_all_remembered ? Outcome::done : Outcome::timed_out;
}

// One that cannot be settled keeps no other from it.
void AtomicReader::settle_some(Deadline deadline) {
  for (std::size_t left = kSettledAtOnce; left != 0 && seen_.size() > kMaxSeen; --left) {
    Seen seen = std::move(seen_.front());
    seen_.pop_front();
    if (!is_settled(seen, deadline)) seen_.push_back(std::move(seen));
  }
}

bool AtomicReader::is_settled(const Seen& seen, Deadline deadline) {
  unresponsive_.resize(requests_.servers());
  const std::vector<ServerNumber> servers = servers_of(seen);
  const auto is_unresponsive = [this](ServerNumber server) { return fabric_.now() < unresponsive_[server]; };
  if (std::ranges::any_of(servers, is_unresponsive)) return false;
  const Deadline until{std::min(deadline.at, fabric_.in(grace_ / kSettlePart).at)};
  Request request = Request::by(caller_, RequestKind::commit);
  request.timestamp = seen.timestamp;
  const Message message = request.encode();
  std::vector<Outcome> sent;
  sent.reserve(servers.size());
  for (const ServerNumber server : servers) sent.push_back(requests_.send(server, message, until));
  bool all = true;
  for (std::size_t i = 0; i < servers.size(); ++i) all = is_ended_at(servers[i], sent[i], until) && all;
  return all;
}

// This session reads nothing more from a server that is lost for good, so nothing there can be missing.
bool AtomicReader::is_ended_at(ServerNumber server, Outcome sent, Deadline deadline) {
  const auto reply = sent == Outcome::done ? requests_.receive(server, deadline) : Result<Message>{sent, {}};
  if (reply.done()) return is_ended(reply.value);
  if (reply.status == Outcome::peer_lost && requests_.is_loss_final(server)) return true;
  unresponsive_[server] = fabric_.now() + grace_;
  return false;
}

std::vector<ServerNumber> AtomicReader::servers_of(const Seen& seen) const {
  std::vector<ServerNumber> servers;
  if (seen.kind == SiblingsKind::list) {
    for (std::size_t at = 0; at + sizeof(KeyId) <= seen.siblings.size(); at += sizeof(KeyId)) {
      KeyId key;
      std::memcpy(&key, &seen.siblings[at], sizeof key);
      servers.push_back(server_of(key, requests_.servers()));
    }
    std::ranges::sort(servers);
    servers.erase(std::unique(servers.begin(), servers.end()), servers.end());
  } else {
    servers.resize(requests_.servers());
    std::iota(servers.begin(), servers.end(), ServerNumber{0});
  }
  return servers;
}

}  // namespace farside::kv
