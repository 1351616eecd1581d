#include "kv/resp/command.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kv/resp/text.h"

namespace farside::kv {

namespace {

std::vector<const Command*> sorted_table() {
  std::vector<const Command*> table;
  for (const auto family : {string_commands(), counter_commands(), key_commands(), expiry_commands(),
                            connection_commands(), server_commands(), transaction_commands()}) {
    for (const Command& command : family) table.push_back(&command);
  }
  std::ranges::sort(table, {}, &Command::name);
  return table;
}

}  // namespace

std::span<const Command* const> all_commands() {
  static const std::vector<const Command*> table = sorted_table();
  return table;
}

const Command* find_command(std::string_view name) {
  std::array<char, 16> small;
  if (name.size() > small.size()) return nullptr;  // no command is longer
  const auto end = std::ranges::transform(name, small.begin(), [](char c) { return lower(c); }).out;
  const std::string_view wanted(small.begin(), end);
  const auto found = std::ranges::lower_bound(all_commands(), wanted, {}, &Command::name);
  return found != all_commands().end() && (*found)->name == wanted ? *found : nullptr;
}

std::string wrong_arity(std::string_view command) {
  return "ERR wrong number of arguments for '" + std::string(command) + "' command";
}

void refuse_subcommand(Call& call) {
  std::string upper(call.words[0]);
  std::ranges::transform(upper, upper.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  call.reply.error("ERR unknown subcommand '" + std::string(call.words[1].substr(0, 128)) + "'. Try " + upper +
                   " HELP.");
}

}  // namespace farside::kv
