// Commands about the server, as redis-cli and redis-benchmark ask for them.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "kv/resp/client.h"
#include "kv/resp/command.h"
#include "kv/resp/text.h"

namespace farside::kv {

namespace {

std::string line(std::string_view name, std::uint64_t value) {
  return std::string(name) + ":" + std::to_string(value) + "\r\n";
}

std::string server_section(Call& call) {
  const auto up = std::chrono::steady_clock::now() - call.client.status().started;
  return "# Server\r\nredis_version:" + std::string(kRedisVersion) +
         "\r\nredis_mode:standalone\r\nfarside_version:" + FARSIDE_VERSION + "\r\n" +
         line("process_id", static_cast<std::uint64_t>(::getpid())) +
         line("uptime_in_seconds",
              static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(up).count()));
}

std::string clients_section(Call& call) {
  const RespStatus& status = call.client.status();
  return "# Clients\r\n" + line("connected_clients", status.clients) + line("maxclients", status.settings.clients);
}

std::string stats_section(Call& call) {
  const RespStatus& status = call.client.status();
  return "# Stats\r\n" + line("total_connections_received", status.connections) +
         line("total_commands_processed", status.commands) +
         line("evicted_clients", status.disconnected.at(static_cast<std::size_t>(Disconnected::buffers))) +
         line("client_output_buffer_limit_disconnections",
              status.disconnected.at(static_cast<std::size_t>(Disconnected::output)));
}

// None: a server does not answer.
std::optional<MemoryUse> use_of_all(Call& call) {
  if (call.client.status().silent.any()) return std::nullopt;
  const auto servers = call.session.use();
  if (!servers.done()) return std::nullopt;
  MemoryUse sum;
  for (const MemoryUse& server : servers.value) {
    sum.keys += server.keys;
    sum.versions += server.versions;
    sum.bytes_used += server.bytes_used;
    sum.bytes_total += server.bytes_total;
  }
  return sum;
}

std::string memory_section(Call& call) {
  const MemoryUse use = use_of_all(call).value_or(MemoryUse{});
  return "# Memory\r\n" + line("used_memory", use.bytes_used) + line("maxmemory", use.bytes_total);
}

std::string keyspace_section(Call& call) {
  const std::uint64_t keys = use_of_all(call).value_or(MemoryUse{}).keys;
  const std::string head = "# Keyspace\r\n";
  return keys == 0 ? head : head + "db0:keys=" + std::to_string(keys) + ",expires=0,avg_ttl=0\r\n";
}

void info(Call& call) {
  constexpr std::array<std::pair<std::string_view, std::string (*)(Call&)>, 5> kSections{{
      {"server", server_section},
      {"clients", clients_section},
      {"stats", stats_section},
      {"memory", memory_section},
      {"keyspace", keyspace_section},
  }};
  std::string text;
  for (const auto& [name, section] : kSections) {
    bool wanted = call.words.size() == 1;
    for (const auto word : call.words.subspan(1)) {
      wanted |= is(word, name) || is(word, "all") || is(word, "default") || is(word, "everything");
    }
    if (wanted) text += (text.empty() ? "" : "\r\n") + section(call);
  }
  call.reply.bulk(text);
}

void describe(RespReply& reply, const Command& command) {
  std::vector<std::string_view> flags;
  if (command.has(Command::kReadOnly)) flags.emplace_back("readonly");
  if (command.has(Command::kWrite)) flags.emplace_back("write");
  if (command.has(Command::kNoAuth)) flags.emplace_back("no_auth");
  if (command.has(Command::kNoMulti)) flags.emplace_back("no_multi");
  reply.array(6);
  reply.bulk(command.name);
  reply.integer(command.arity);
  reply.array(flags.size());
  for (const auto flag : flags) reply.status(flag);
  reply.integer(command.first_key);
  reply.integer(command.last_key);
  reply.integer(command.first_key == 0 ? 0 : command.key_step);
}

void describe_some(Call& call) {
  call.reply.array(call.words.size() - 2);
  for (const auto name : call.words.subspan(2)) {
    if (const Command* command = find_command(name)) {
      describe(call.reply, *command);
    } else {
      call.reply.null();
    }
  }
}

void describe_all(Call& call) {
  call.reply.array(all_commands().size());
  for (const Command* each : all_commands()) describe(call.reply, *each);
}

void command(Call& call) { call.words.size() == 1 ? describe_all(call) : run_subcommand(call); }

void command_info(Call& call) { call.words.size() == 2 ? describe_all(call) : describe_some(call); }

void count_commands(Call& call) { call.reply.integer(static_cast<std::int64_t>(all_commands().size())); }

void document_commands(Call& call) { call.reply.array(0); }  // redis-cli then uses its own

void list_commands(Call& call) {
  if (call.words.size() > 2) return call.reply.error(kSyntaxError);
  call.reply.array(all_commands().size());
  for (const Command* each : all_commands()) call.reply.bulk(each->name);
}

constexpr Subcommand kOfCommand[] = {
    {"count", 2, count_commands, "", "Return how many commands there are."},
    {"info", -2, command_info, " [<command-name> ...]",
     "Return what there is to know about commands; of all, if none is named."},
    {"list", -2, list_commands, "", "Return the names of all commands."},
    {"docs", -2, document_commands, " [<command-name> ...]",
     "Return nothing: programs have documentation of their own."},
    {"help", 2, tell_subcommands, "", "Print this help."},
};

bool is_asked_for(const Call& call, std::string_view setting) {
  return std::ranges::any_of(call.words.subspan(2), [&](auto pattern) { return matches(lower(pattern), setting); });
}

void tell_settings(Call& call) {
  constexpr std::string_view kMaxMemory = "maxmemory";  // for which the servers are asked
  const RespSettings& settings = call.client.status().settings;
  std::uint64_t memory = 0;
  if (is_asked_for(call, kMaxMemory)) {
    const auto use = use_of_all(call);
    if (!use) return call.reply.error(kNoAnswer);
    memory = use->bytes_total;
  }
  const std::array<std::pair<std::string_view, std::string>, 8> known{{
      {"appendonly", "no"},
      {"databases", "1"},
      {"maxclients", std::to_string(settings.clients)},
      {kMaxMemory, std::to_string(memory)},
      {"maxmemory-policy", "noeviction"},
      {"proto-max-bulk-len", std::to_string(settings.requests.argument_bytes)},
      {"save", ""},
      {"timeout", "0"},
  }};
  std::vector<std::string_view> found;
  for (const auto& [name, value] : known) {
    if (is_asked_for(call, name)) found.insert(found.end(), {name, value});
  }
  call.reply.array(found.size());
  for (const auto word : found) call.reply.bulk(word);
}

constexpr Subcommand kOfConfig[] = {
    {"get", -3, tell_settings, " <pattern> ...",
     "Return the settings whose names match. They are given at the start of the server."},
    {"help", 2, tell_subcommands, "", "Print this help."},
};

}  // namespace

std::span<const Command> server_commands() {
  static constexpr Command kCommands[] = {
      {"info", -1, 0, info},
      {.name = "command", .arity = -1, .flags = 0, .run = command, .subcommands = kOfCommand},
      {.name = "config", .arity = -2, .flags = 0, .run = run_subcommand, .subcommands = kOfConfig},
  };
  return kCommands;
}

}  // namespace farside::kv
