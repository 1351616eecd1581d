// Commands that read and write values.
#include <optional>
#include <string>

#include "kv/resp/command.h"
#include "kv/resp/expiry.h"
#include "kv/resp/text.h"

namespace farside::kv {

namespace {

void reply_value(RespReply& reply, const UnitOfWork::Value* value) {
  if (value == nullptr) return reply.null();
  reply.bulk(value->bytes);
}

void refuse_expiry(Call& call) {
  call.reply.error("ERR invalid expire time in '" + lower(call.words[0]) + "' command");
}

// A lifetime as SET and its relatives take it. None: it was refused.
std::optional<std::uint64_t> read_expiry(Call& call, std::string_view word, TimeUnit unit) {
  const auto time = parse_integer(word);
  if (!time) {
    call.reply.error(kNotAnInteger);
    return std::nullopt;
  }
  const auto expires = *time > 0 ? expires_ns(*time, unit, call.unit.now_ns()) : std::nullopt;
  if (!expires) refuse_expiry(call);
  return expires;
}

// The options behind the value of a SET, or the key of a GETEX.
struct Options {
  bool only_absent = false;
  bool only_present = false;
  bool get = false;
  bool keep_expiry = false;
  bool persist = false;
  std::optional<TimeUnit> unit;  // given twice, the last time counts
  std::string_view time;

  [[nodiscard]] bool may_expire(TimeUnit in) const { return !keep_expiry && !persist && (!unit || *unit == in); }
};

std::optional<TimeUnit> time_unit(std::string_view word) {
  if (is(word, "ex")) return kSecondsFromNow;
  if (is(word, "px")) return kMsFromNow;
  if (is(word, "exat")) return kUnixSeconds;
  if (is(word, "pxat")) return kUnixMs;
  return std::nullopt;
}

// None: they contradict each other, or one is unknown.
std::optional<Options> read_options(std::span<const std::string_view> words, bool of_set) {
  Options options;
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (of_set && is(words[at], "nx") && !options.only_present) {
      options.only_absent = true;
    } else if (of_set && is(words[at], "xx") && !options.only_absent) {
      options.only_present = true;
    } else if (of_set && is(words[at], "get")) {
      options.get = true;
    } else if (of_set && is(words[at], "keepttl") && !options.unit) {
      options.keep_expiry = true;
    } else if (!of_set && is(words[at], "persist") && !options.unit) {
      options.persist = true;
    } else if (const auto unit = time_unit(words[at]); unit && options.may_expire(*unit) && at + 1 < words.size()) {
      options.unit = unit;
      options.time = words[++at];
    } else {
      return std::nullopt;
    }
  }
  return options;
}

void get(Call& call) { reply_value(call.reply, call.unit.find(call.words[1])); }

void set(Call& call) {
  const auto key = call.words[1];
  const auto options = read_options(call.words.subspan(3), true);
  if (!options) return call.reply.error(kSyntaxError);
  std::uint64_t expires = 0;
  if (options->unit) {
    const auto read = read_expiry(call, options->time, *options->unit);
    if (!read) return;
    expires = *read;
  }
  if (call.words.size() > 3) {  // else it is written whatever is there
    const auto* before = call.unit.find(key);
    const bool writes = !(options->only_absent && before != nullptr) && !(options->only_present && before == nullptr);
    if (options->get || !writes) reply_value(call.reply, options->get ? before : nullptr);
    if (!writes) return;
    if (options->keep_expiry && before != nullptr) expires = before->expires_ns;
  }
  call.unit.set(key, call.words[2], expires);
  if (!options->get) call.reply.ok();
}

void set_if_absent(Call& call) {
  const bool absent = call.unit.find(call.words[1]) == nullptr;
  if (absent) call.unit.set(call.words[1], call.words[2], 0);
  call.reply.integer(absent ? 1 : 0);
}

void set_for(Call& call, TimeUnit unit) {
  const auto expires = read_expiry(call, call.words[2], unit);
  if (!expires) return;
  call.unit.set(call.words[1], call.words[3], *expires);
  call.reply.ok();
}
void set_seconds(Call& call) { set_for(call, kSecondsFromNow); }
void set_ms(Call& call) { set_for(call, kMsFromNow); }

void get_and_set(Call& call) {
  get(call);
  call.unit.set(call.words[1], call.words[2], 0);
}

void get_and_erase(Call& call) {
  get(call);
  if (call.unit.find(call.words[1]) != nullptr) call.unit.erase(call.words[1]);
}

void get_and_expire(Call& call) {
  const auto options = read_options(call.words.subspan(2), false);
  if (!options) return call.reply.error(kSyntaxError);
  const auto* value = call.unit.find(call.words[1]);
  if (value == nullptr) return call.reply.null();
  std::uint64_t expires = value->expires_ns;
  if (options->persist) expires = 0;
  if (options->unit) {
    const auto read = read_expiry(call, options->time, *options->unit);
    if (!read) return;
    expires = *read;
  }
  call.reply.bulk(value->bytes);
  if (expires != value->expires_ns) call.unit.set(call.words[1], value->bytes, expires);
}

void get_many(Call& call) {
  call.reply.array(call.words.size() - 1);
  for (const auto key : call.words.subspan(1)) reply_value(call.reply, call.unit.find(key));
}

void set_pairs(Call& call) {
  for (std::size_t at = 1; at < call.words.size(); at += 2) call.unit.set(call.words[at], call.words[at + 1], 0);
}

bool has_pairs(Call& call) {
  if (call.words.size() % 2 == 1) return true;
  call.reply.error(wrong_arity(lower(call.words[0])));
  return false;
}

void set_many(Call& call) {
  if (!has_pairs(call)) return;
  set_pairs(call);
  call.reply.ok();
}

void set_many_if_absent(Call& call) {
  if (!has_pairs(call)) return;
  for (std::size_t at = 1; at < call.words.size(); at += 2) {
    if (call.unit.find(call.words[at]) != nullptr) return call.reply.integer(0);
  }
  set_pairs(call);
  call.reply.integer(1);
}

}  // namespace

std::span<const Command> string_commands() {
  static constexpr Command kCommands[] = {
      {"get", 2, Command::kReadOnly, get, 1, 1},
      {"set", -3, Command::kWrite, set, 1, 1, 1, 3},
      {"setnx", 3, Command::kWrite, set_if_absent, 1, 1},
      {"setex", 4, Command::kWrite, set_seconds, 1, 1, 1, kAlwaysBlind},
      {"psetex", 4, Command::kWrite, set_ms, 1, 1, 1, kAlwaysBlind},
      {"getset", 3, Command::kWrite, get_and_set, 1, 1},
      {"getdel", 2, Command::kWrite, get_and_erase, 1, 1},
      {"getex", -2, Command::kWrite, get_and_expire, 1, 1},
      {"mget", -2, Command::kReadOnly, get_many, 1, -1},
      {"mset", -3, Command::kWrite, set_many, 1, -1, 2, kAlwaysBlind},
      {"msetnx", -3, Command::kWrite, set_many_if_absent, 1, -1, 2},
  };
  return kCommands;
}

}  // namespace farside::kv
