#include "kv/resp/command.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/assert.h"
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

const Subcommand* find_subcommand(const Command& command, std::string_view name) {
  const auto found = std::ranges::find_if(command.subcommands, [&](const auto& each) { return is(name, each.name); });
  return found == command.subcommands.end() ? nullptr : &*found;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return result;
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

std::string_view error_of(PutOutcome outcome) {
  switch (outcome) {
    case PutOutcome::full: return kOutOfMemory;
    case PutOutcome::unwritable: return kUnwritable;
    case PutOutcome::too_few_copies: return kTooFewCopies;
    case PutOutcome::differs: return kContended;
    default: return kUnknown;
  }
}

std::string_view error_of(Outcome outcome) { return outcome == Outcome::peer_lost ? kServerLost : kNoAnswer; }

// Server n is on node n.
std::string lost_error(std::uint32_t server, bool is_write) {
  const std::string number = std::to_string(server);
  return "ERR server " + number + " of the store, on node " + number + ", is lost" +
         (is_write ? ": this was written, as a whole, or not at all" : "") +
         "; keys of other servers can be used, see farside status";
}

std::string silent_error(std::uint32_t server) {
  const std::string number = std::to_string(server);
  return "ERR server " + number + " of the store, on node " + number +
         ", does not answer: nothing was done; keys of other servers can be used, see farside status";
}

std::string wrong_arity(std::string_view command) {
  return "ERR wrong number of arguments for '" + std::string(command) + "' command";
}

std::string why_wrong(const Command& command, std::span<const std::string_view> words) {
  if (!allows_words(command.arity, words.size())) return wrong_arity(command.name);
  if (command.subcommands.empty() || words.size() == 1) return "";
  const Subcommand* sub = find_subcommand(command, words[1]);
  if (sub == nullptr) {
    return "ERR unknown subcommand '" + std::string(words[1].substr(0, 128)) + "'. Try " + upper(command.name) +
           " HELP.";
  }
  if (allows_words(sub->arity, words.size())) return "";
  return wrong_arity(std::string(command.name) + "|" + std::string(sub->name));
}

void run_subcommand(Call& call) {
  const Subcommand* const sub = find_subcommand(*find_command(call.words[0]), call.words[1]);
  assert_that(sub != nullptr, "a command that is not wrong has the subcommand that it names");
  sub->run(call);
}

void tell_subcommands(Call& call) {
  const Command& command = *find_command(call.words[0]);
  call.reply.array(1 + 2 * command.subcommands.size());
  call.reply.status(upper(command.name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const Subcommand& sub : command.subcommands) {
    call.reply.status(upper(sub.name) + std::string(sub.arguments));
    call.reply.status("    " + std::string(sub.help));
  }
}

}  // namespace farside::kv
