// Commands that make a value from the one before. What they write rests on what they read: see UnitOfWork.
#include <string>

#include "kv/resp/client.h"
#include "kv/resp/command.h"
#include "kv/resp/text.h"

namespace farside::kv {

namespace {

void add(Call& call, std::int64_t by) {
  const auto* before = call.unit.find(call.words[1]);
  const auto value = before == nullptr ? std::optional<std::int64_t>(0) : parse_integer(before->bytes);
  if (!value) return call.reply.error(kNotAnInteger);
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*value, by, &sum)) {
    return call.reply.error("ERR increment or decrement would overflow");
  }
  const std::uint64_t expires = before == nullptr ? 0 : before->expires_ns;
  call.unit.set(call.words[1], call.unit.keep(std::to_string(sum)), expires);
  call.reply.integer(sum);
}

void increment(Call& call) { add(call, 1); }
void decrement(Call& call) { add(call, -1); }

void increment_by(Call& call) {
  const auto by = parse_integer(call.words[2]);
  if (!by) return call.reply.error(kNotAnInteger);
  add(call, *by);
}

void decrement_by(Call& call) {
  const auto by = parse_integer(call.words[2]);
  if (!by) return call.reply.error(kNotAnInteger);
  if (*by == std::numeric_limits<std::int64_t>::min()) return call.reply.error("ERR decrement would overflow");
  add(call, -*by);
}

void append(Call& call) {
  const auto* before = call.unit.find(call.words[1]);
  std::string value(before == nullptr ? std::string_view() : before->bytes);
  value.append(call.words[2]);
  if (value.size() > call.client.limits().argument_bytes) {
    return call.reply.error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
  }
  call.reply.integer(static_cast<std::int64_t>(value.size()));
  const std::uint64_t expires = before == nullptr ? 0 : before->expires_ns;
  call.unit.set(call.words[1], call.unit.keep(std::move(value)), expires);
}

void length(Call& call) {
  const auto* value = call.unit.find(call.words[1]);
  call.reply.integer(value == nullptr ? 0 : static_cast<std::int64_t>(value->bytes.size()));
}

}  // namespace

std::span<const Command> counter_commands() {
  static constexpr Command kCommands[] = {
      {"incr", 2, Command::kWrite, increment, 1, 1},      {"decr", 2, Command::kWrite, decrement, 1, 1},
      {"incrby", 3, Command::kWrite, increment_by, 1, 1}, {"decrby", 3, Command::kWrite, decrement_by, 1, 1},
      {"append", 3, Command::kWrite, append, 1, 1},       {"strlen", 2, Command::kReadOnly, length, 1, 1},
  };
  return kCommands;
}

}  // namespace farside::kv
