// MULTI and what belongs to it. Stands alone, as each group of commands does.
#include "kv/resp/client.h"
#include "kv/resp/command.h"

namespace farside::kv {

namespace {

void multi(Call& call) { call.client.begin_transaction(call.reply); }
void exec(Call& call) { call.client.run_transaction(call.reply); }
void discard(Call& call) { call.client.discard_transaction(call.reply); }

}  // namespace

std::span<const Command> transaction_commands() {
  static constexpr Command kCommands[] = {
      {"multi", 1, Command::kAtOnce, multi},
      {"exec", 1, Command::kAtOnce | Command::kEndsMulti, exec},
      {"discard", 1, Command::kAtOnce, discard},
  };
  return kCommands;
}

}  // namespace farside::kv
