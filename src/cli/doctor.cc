#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <sys/utsname.h>

#include "cli/commands.h"
#include "cli/machine_checks.h"
#include "cli/table.h"

namespace farside::cli {

namespace {

std::string verdict_text(Check::Verdict verdict) {
  switch (verdict) {
    case Check::Verdict::good: return "ok";
    case Check::Verdict::limited: return "note";
    case Check::Verdict::missing: return "MISSING";
  }
  return "";
}

int doctor() {
  utsname system{};
  ::uname(&system);
  std::cout << "farside " << FARSIDE_VERSION << ", " << system.sysname << ' ' << system.release << ' ' << system.machine
            << "\n\n";
  const std::vector<Check> checks = check_machine();
  using enum Table::Align;
  Table table({left, left, left, left});
  for (const Check& check : checks) {
    table.add({check.group, check.name, verdict_text(check.verdict), check.found});
    if (!check.advice.empty()) table.add({"", "", "", "-> " + check.advice});
  }
  table.print(std::cout);
  return std::ranges::any_of(checks, [](const Check& check) { return check.verdict == Check::Verdict::missing; });
}

}  // namespace

void add_doctor(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("doctor", "Show what this machine has of what farside can use");
  command->footer(
      "Exits with 1 when something is missing without which farside does not work.\n\n"
      "Example:\n  farside doctor");
  command->callback([&chosen] { chosen = doctor; });
}

}  // namespace farside::cli
