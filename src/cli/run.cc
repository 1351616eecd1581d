// `farside run`. Stands alone, as each command does.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "team/job.h"

namespace farside::cli {

void add_run(CLI::App& app, Action& chosen) {
  struct Arguments {
    team::Rank ranks = 1;
    std::vector<std::string> command;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* run = app.add_subcommand("run", "Run a program as N processes on this machine that form a team");
  run->add_option("-n", arguments->ranks, "How many processes")->required()->type_name("N");
  run->add_option("command", arguments->command, "The program and its arguments, after --")
      ->required()
      ->type_name("PROGRAM [ARGUMENT...]");
  run->footer(
      "Exits with the code of the first process that failed (128 + n when signal n killed it) after ending the\n"
      "others, and says which it was; 127 when there is no such program, 126 when it cannot be executed. Rank 0 gets\n"
      "the standard input.\n\n"
      "Example:\n  farside run -n 4 -- ./heat --steps 1000");
  run->callback(
      [arguments, &chosen] { chosen = [arguments] { return team::run_job(arguments->ranks, arguments->command); }; });
}

}  // namespace farside::cli
