// Commands about which keys there are.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv/contention.h"
#include "kv/protocol/time_limits.h"
#include "kv/resp/command.h"
#include "kv/resp/text.h"

namespace farside::kv {

namespace {

constexpr std::size_t kKeysAtOnce = 512;

void erase(Call& call) {
  std::int64_t erased = 0;
  for (const auto key : call.words.subspan(1)) {
    if (call.unit.find(key) == nullptr) continue;
    call.unit.erase(key);
    ++erased;
  }
  call.reply.integer(erased);
}

void count_present(Call& call) {
  std::int64_t present = 0;
  for (const auto key : call.words.subspan(1)) present += call.unit.find(key) == nullptr ? 0 : 1;
  call.reply.integer(present);
}

void type(Call& call) { call.reply.status(call.unit.find(call.words[1]) == nullptr ? "none" : "string"); }

void count_keys(Call& call) {
  const auto servers = call.session.use();
  if (!servers.done()) return call.reply.error(error_of(servers.status));
  std::uint64_t keys = 0;
  for (const MemoryUse& server : servers.value) keys += server.keys;
  call.reply.integer(static_cast<std::int64_t>(keys));
}

void list_keys(Call& call) {
  const auto pattern = call.words[1];
  std::vector<std::string> found;
  std::uint64_t cursor = 0;
  do {
    auto scanned = call.session.scan(cursor, literal_prefix(pattern), kKeysAtOnce);
    if (!scanned.done()) return call.reply.error(error_of(scanned.status));
    for (std::string& key : scanned.value.keys) {
      if (matches(pattern, key)) found.push_back(std::move(key));
    }
    cursor = scanned.value.next;
  } while (cursor != 0);
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  call.reply.array(found.size());
  for (const std::string& key : found) call.reply.bulk(key);
}

struct ScanOptions {
  std::uint64_t cursor = 0;
  std::string_view pattern = "*";
  std::size_t about = 10;
  bool any = true;  ///< none when keys of another type than string are wanted
};

// None: refused.
std::optional<ScanOptions> read_scan(Call& call) {
  ScanOptions options;
  const auto refuse = [&](std::string_view why) {
    call.reply.error(why);
    return std::nullopt;
  };
  const auto word = call.words[1];
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), options.cursor);
  if (error != std::errc() || end != word.data() + word.size()) return refuse("ERR invalid cursor");
  for (std::size_t at = 2; at < call.words.size(); at += 2) {
    if (at + 1 == call.words.size()) return refuse(kSyntaxError);
    const auto value = call.words[at + 1];
    if (is(call.words[at], "match")) {
      options.pattern = value;
    } else if (is(call.words[at], "count")) {
      const auto about = parse_integer(value);
      if (!about) return refuse(kNotAnInteger);
      if (*about < 1) return refuse(kSyntaxError);
      options.about = static_cast<std::size_t>(*about);
    } else if (is(call.words[at], "type")) {
      options.any = is(value, "string");
    } else {
      return refuse(kSyntaxError);
    }
  }
  return options;
}

void scan(Call& call) {
  const auto options = read_scan(call);
  if (!options) return;
  auto scanned = call.session.scan(options->cursor, literal_prefix(options->pattern), options->about);
  if (!scanned.done()) return call.reply.error(error_of(scanned.status));
  auto& [keys, next] = scanned.value;
  std::erase_if(keys, [&](const std::string& key) { return !options->any || !matches(options->pattern, key); });
  call.reply.array(2);
  call.reply.bulk(std::to_string(next));
  call.reply.array(keys.size());
  for (const std::string& key : keys) call.reply.bulk(key);
}

// Each key by itself, which takes the least memory. A full server has room for as many erasures again when it has kept
// those before.
PutOutcome erase_each(Session& session, std::span<const std::string> keys) {
  std::vector<Write> writes;
  for (const std::string& key : keys) writes.push_back({.key = key, .erase = true});
  std::vector<IndependentPut> puts;
  puts.reserve(writes.size());
  for (const Write& write : writes) puts.push_back({.writes = {&write, 1}});
  Contention contention(time_limits::kContention);
  for (std::size_t left = puts.size(); left != 0;) {
    session.put_each(puts);
    const auto failed = std::ranges::find_if(
        puts, [](auto outcome) { return outcome != PutOutcome::done && outcome != PutOutcome::full; },
        &IndependentPut::outcome);
    if (failed != puts.end()) return failed->outcome;
    std::erase_if(puts, [](const IndependentPut& put) { return put.outcome == PutOutcome::done; });
    const bool none_was_erased = std::exchange(left, puts.size()) == puts.size();
    if (none_was_erased && !contention.try_again()) return PutOutcome::full;
  }
  return PutOutcome::done;
}

// Some hundred keys at a time: what others write meanwhile may stay.
void erase_all(Call& call) {
  if (call.words.size() == 2 && !is(call.words[1], "async") && !is(call.words[1], "sync")) {
    return call.reply.error(kSyntaxError);
  }
  if (call.words.size() > 2) return call.reply.error(kSyntaxError);
  std::uint64_t cursor = 0;
  do {
    const auto scanned = call.session.scan(cursor, {}, kKeysAtOnce);
    if (!scanned.done()) return call.reply.error(error_of(scanned.status));
    const auto erased = erase_each(call.session, scanned.value.keys);
    if (erased != PutOutcome::done) return call.reply.error(error_of(erased));
    cursor = scanned.value.next;
  } while (cursor != 0);
  call.reply.ok();
}

}  // namespace

std::span<const Command> key_commands() {
  static constexpr Command kCommands[] = {
      {"del", -2, Command::kWrite, erase, 1, -1},
      {"unlink", -2, Command::kWrite, erase, 1, -1},
      {"exists", -2, Command::kReadOnly, count_present, 1, -1},
      {"touch", -2, Command::kReadOnly, count_present, 1, -1},
      {"type", 2, Command::kReadOnly, type, 1, 1},
      {"dbsize", 1, Command::kReadOnly | Command::kAllServers, count_keys},
      {"keys", 2, Command::kReadOnly | Command::kAllServers, list_keys},
      {"scan", -2, Command::kReadOnly | Command::kAllServers, scan},
      {"flushall", -1, Command::kWrite | Command::kNoMulti | Command::kAllServers, erase_all},
      {"flushdb", -1, Command::kWrite | Command::kNoMulti | Command::kAllServers, erase_all},
  };
  return kCommands;
}

}  // namespace farside::kv
