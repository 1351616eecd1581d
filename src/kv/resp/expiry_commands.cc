// Commands about when keys expire.
#include "kv/resp/command.h"
#include "kv/resp/expiry.h"
#include "kv/resp/text.h"

namespace farside::kv {

std::optional<std::uint64_t> expires_ns(std::int64_t time, TimeUnit unit, std::uint64_t now_ns) {
  constexpr auto kLastMs = static_cast<std::int64_t>(std::numeric_limits<std::uint64_t>::max() / kNsPerMs);
  std::int64_t ms = 0;
  if (__builtin_mul_overflow(time, unit.ms, &ms)) return std::nullopt;
  if (unit.from_now && __builtin_add_overflow(ms, static_cast<std::int64_t>(now_ns / kNsPerMs), &ms)) {
    return std::nullopt;
  }
  if (ms > kLastMs) return std::nullopt;
  return ms <= 0 ? 1 : static_cast<std::uint64_t>(ms) * kNsPerMs;
}

std::int64_t in_unit(std::uint64_t expires_ns, TimeUnit unit, std::uint64_t now_ns) {
  const std::uint64_t ns = unit.from_now ? expires_ns - std::min(expires_ns, now_ns) : expires_ns;
  const auto ms = static_cast<std::int64_t>((ns + kNsPerMs / 2) / kNsPerMs);
  return (ms + unit.ms / 2) / unit.ms;
}

namespace {

struct Conditions {
  bool only_without = false;  ///< an expiry
  bool only_with = false;
  bool only_later = false;
  bool only_earlier = false;
};

// None: refused.
std::optional<Conditions> read_conditions(Call& call) {
  Conditions conditions;
  for (const auto word : call.words.subspan(3)) {
    if (is(word, "nx")) {
      conditions.only_without = true;
    } else if (is(word, "xx")) {
      conditions.only_with = true;
    } else if (is(word, "gt")) {
      conditions.only_later = true;
    } else if (is(word, "lt")) {
      conditions.only_earlier = true;
    } else {
      call.reply.error("ERR Unsupported option " + std::string(word.substr(0, 128)));
      return std::nullopt;
    }
  }
  if (conditions.only_without && (conditions.only_with || conditions.only_later || conditions.only_earlier)) {
    call.reply.error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return std::nullopt;
  }
  if (conditions.only_later && conditions.only_earlier) {
    call.reply.error("ERR GT and LT options at the same time are not compatible");
    return std::nullopt;
  }
  return conditions;
}

// A key that never expires is as one that expires later than all others.
bool met(const Conditions& conditions, std::uint64_t before, std::uint64_t after) {
  if (conditions.only_without && before != 0) return false;
  if (conditions.only_with && before == 0) return false;
  if (conditions.only_later && (before == 0 || after <= before)) return false;
  return !(conditions.only_earlier && before != 0 && after >= before);
}

void expire(Call& call, TimeUnit unit) {
  const auto conditions = read_conditions(call);
  if (!conditions) return;
  const auto time = parse_integer(call.words[2]);
  if (!time) return call.reply.error(kNotAnInteger);
  const auto expires = expires_ns(*time, unit, call.unit.now_ns());
  if (!expires) return call.reply.error("ERR invalid expire time in '" + lower(call.words[0]) + "' command");
  const auto* value = call.unit.find(call.words[1]);
  if (value == nullptr || !met(*conditions, value->expires_ns, *expires)) return call.reply.integer(0);
  call.unit.set(call.words[1], value->bytes, *expires);
  call.reply.integer(1);
}
void expire_seconds(Call& call) { expire(call, kSecondsFromNow); }
void expire_ms(Call& call) { expire(call, kMsFromNow); }
void expire_at_seconds(Call& call) { expire(call, kUnixSeconds); }
void expire_at_ms(Call& call) { expire(call, kUnixMs); }

void tell_expiry(Call& call, TimeUnit unit) {
  const auto* value = call.unit.find(call.words[1]);
  if (value == nullptr) return call.reply.integer(-2);
  call.reply.integer(value->expires_ns == 0 ? -1 : in_unit(value->expires_ns, unit, call.unit.now_ns()));
}
void seconds_left(Call& call) { tell_expiry(call, kSecondsFromNow); }
void ms_left(Call& call) { tell_expiry(call, kMsFromNow); }
void expiry_seconds(Call& call) { tell_expiry(call, kUnixSeconds); }
void expiry_ms(Call& call) { tell_expiry(call, kUnixMs); }

void persist(Call& call) {
  const auto* value = call.unit.find(call.words[1]);
  const bool expires = value != nullptr && value->expires_ns != 0;
  if (expires) call.unit.set(call.words[1], value->bytes, 0);
  call.reply.integer(expires ? 1 : 0);
}

}  // namespace

std::span<const Command> expiry_commands() {
  static constexpr Command kCommands[] = {
      {"expire", -3, Command::kWrite, expire_seconds, 1, 1},
      {"pexpire", -3, Command::kWrite, expire_ms, 1, 1},
      {"expireat", -3, Command::kWrite, expire_at_seconds, 1, 1},
      {"pexpireat", -3, Command::kWrite, expire_at_ms, 1, 1},
      {"ttl", 2, Command::kReadOnly, seconds_left, 1, 1},
      {"pttl", 2, Command::kReadOnly, ms_left, 1, 1},
      {"expiretime", 2, Command::kReadOnly, expiry_seconds, 1, 1},
      {"pexpiretime", 2, Command::kReadOnly, expiry_ms, 1, 1},
      {"persist", 2, Command::kWrite, persist, 1, 1},
  };
  return kCommands;
}

}  // namespace farside::kv
