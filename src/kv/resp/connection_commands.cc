// Commands about the connection itself.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>

#include "kv/resp/client.h"
#include "kv/resp/command.h"
#include "kv/resp/text.h"

namespace farside::kv {

namespace {

constexpr std::string_view kWrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";

void ping(Call& call) {
  if (call.words.size() > 2) return call.reply.error(wrong_arity("ping"));
  if (call.words.size() == 2) return call.reply.bulk(call.words[1]);
  call.reply.status("PONG");
}

void echo(Call& call) { call.reply.bulk(call.words[1]); }

void quit(Call& call) {
  call.client.close_after_reply();
  call.reply.ok();
}

void reset(Call& call) {
  call.client.reset();
  call.reply.status("RESET");
}

void select(Call& call) {
  const auto number = parse_integer(call.words[1]);
  if (!number) return call.reply.error(kNotAnInteger);
  if (*number != static_cast<std::int32_t>(*number)) {
    return call.reply.error("ERR value is out of range, value must between -2147483648 and 2147483647");
  }
  if (*number != 0) return call.reply.error("ERR DB index is out of range");
  call.reply.ok();
}

void authenticate(Call& call) {
  if (call.words.size() > 3) return call.reply.error(kSyntaxError);
  if (call.words.size() == 2 && call.client.status().settings.password.empty()) {
    return call.reply.error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
  }
  const auto user = call.words.size() == 3 ? call.words[1] : "default";
  if (!call.client.authenticate(user, call.words.back())) return call.reply.error(kWrongPassword);
  call.reply.ok();
}

bool is_name(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '!' && c <= '~'; });
}

constexpr std::string_view kBadName = "ERR Client names cannot contain spaces, newlines or special characters.";

void tell_server(Call& call) {
  call.reply.array(14);
  const auto pair = [&](std::string_view name, std::string_view value) {
    call.reply.bulk(name);
    call.reply.bulk(value);
  };
  pair("server", "redis");
  pair("version", kRedisVersion);
  call.reply.bulk("proto");
  call.reply.integer(2);
  call.reply.bulk("id");
  call.reply.integer(static_cast<std::int64_t>(call.client.id()));
  pair("mode", "standalone");
  pair("role", "master");
  call.reply.bulk("modules");
  call.reply.array(0);
}

void hello(Call& call) {
  const auto words = call.words;
  if (words.size() > 1) {
    const auto version = parse_integer(words[1]);
    if (!version) return call.reply.error("ERR Protocol version is not an integer or out of range");
    if (*version != 2) return call.reply.error("NOPROTO unsupported protocol version");
  }
  std::string_view name = call.client.name();
  for (std::size_t at = 2; at < words.size();) {
    if (is(words[at], "auth") && at + 2 < words.size()) {
      if (!call.client.authenticate(words[at + 1], words[at + 2])) return call.reply.error(kWrongPassword);
      at += 3;
    } else if (is(words[at], "setname") && at + 1 < words.size()) {
      name = words[at + 1];
      if (!is_name(name)) return call.reply.error(kBadName);
      at += 2;
    } else {
      return call.reply.error("ERR Syntax error in HELLO option '" + std::string(words[at].substr(0, 128)) + "'");
    }
  }
  if (!call.client.authenticated()) {
    return call.reply.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> "
        "option can be used to authenticate the client and select the RESP protocol version at the same time");
  }
  call.client.rename(std::string(name));
  tell_server(call);
}

void rename(Call& call) {
  if (!is_name(call.words[2])) return call.reply.error(kBadName);
  call.client.rename(call.words[2]);
  call.reply.ok();
}

void tell_name(Call& call) {
  if (call.client.name().empty()) return call.reply.null();
  call.reply.bulk(call.client.name());
}

// Describes the calling client alone. Libraries look for all numbers that Redis 7 reports; those that are not counted
// are 0.
void describe(Call& call) {
  const RespClient& client = call.client;
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - client.since());
  call.reply.bulk(
      "id=" + std::to_string(client.id()) + " addr=" + client.address() + " name=" + client.name() +
      " age=" + std::to_string(age.count()) +
      " idle=0 flags=N db=0 sub=0 psub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 obl=0 oll=0 omem=0 tot-mem=0 "
      "cmd=client user=default resp=2\n");
}

void list_clients(Call& call) {
  if (call.words.size() > 2) return call.reply.error(kSyntaxError);
  describe(call);
}

void tell_id(Call& call) { call.reply.integer(static_cast<std::int64_t>(call.client.id())); }

void note_library(Call& call) { call.reply.ok(); }  // its name and version are not used

constexpr Subcommand kOfClient[] = {
    {"id", 2, tell_id, "", "Return the number of the connection."},
    {"info", 2, describe, "", "Return what there is to know about the connection."},
    {"list", -2, list_clients, "", "Return the same: of the client that asks alone."},
    {"getname", 2, tell_name, "", "Return the name of the connection."},
    {"setname", 3, rename, " <name>", "Give the connection a name."},
    {"setinfo", 4, note_library, " <attribute> <value>", "Do nothing."},
    {"help", 2, tell_subcommands, "", "Print this help."},
};

}  // namespace

std::span<const Command> connection_commands() {
  static constexpr Command kCommands[] = {
      {"ping", -1, Command::kReadOnly, ping},
      {"echo", 2, Command::kReadOnly, echo},
      {"quit", -1, Command::kNoAuth | Command::kAtOnce, quit},
      {"reset", 1, Command::kNoAuth | Command::kAtOnce, reset},
      {"select", 2, 0, select},
      {"auth", -2, Command::kNoAuth, authenticate},
      {"hello", -1, Command::kNoAuth, hello},
      {.name = "client", .arity = -2, .flags = 0, .run = run_subcommand, .subcommands = kOfClient},
  };
  return kCommands;
}

}  // namespace farside::kv
