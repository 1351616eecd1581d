#include "bench/harness/entrant.h"

#include <algorithm>
#include <filesystem>

#include "farside/base/error.h"

namespace farside::bench {

Contender::Program Fabric::used_by(Contender::Program program) const {
  program.command.insert(program.command.begin(), on_user.begin(), on_user.end());
  return program;
}

const Fabric& direct() {
  static const Fabric fabric{"direct", {{"FARSIDE_FABRIC", "direct"}}};
  return fabric;
}

const Fabric& over_tcp() {
  static const Fabric fabric{"ucx/TCP", {{"FARSIDE_FABRIC", "ucx"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "lo"}}};
  return fabric;
}

Contender::Program farside_program(const Fabric& fabric, unsigned ranks, const std::string& program,
                                   const std::vector<std::string>& arguments) {
  std::vector<std::string> command{
      sibling_program("../../bin/farside"), "run", "-n", std::to_string(ranks), "--", sibling_program(program)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return {command, fabric.environment};
}

Contender::Program mpi_program(unsigned ranks, const std::string& program, const std::vector<std::string>& options) {
  std::vector<std::string> command{"mpirun",    "-n",  std::to_string(ranks), "--allow-run-as-root", "--oversubscribe",
                                   "--bind-to", "none"};
  command.insert(command.end(), options.begin(), options.end());
  command.push_back(sibling_program(program));
  return {command};
}

std::unique_ptr<Contender> start(const std::string& what, const Entrant& entrant, Report& report) {
  const std::string& program = entrant.program.command.front();
  if (program == "mpirun" && !installed(program)) {
    report.not_measured(what, "mpirun is missing (install openmpi-bin)");
    return nullptr;
  }
  const auto is_missing = [](const std::string& word) {
    return word.starts_with('/') && !std::filesystem::exists(word);
  };
  if (const auto missing = std::ranges::find_if(entrant.program.command, is_missing);
      missing != entrant.program.command.end()) {
    report.not_measured(what, *missing + " was not built");
    return nullptr;
  }
  try {
    return std::make_unique<Contender>(entrant.name, entrant.program);
  } catch (const Error& error) {
    report.not_measured(what, error.what());
    return nullptr;
  }
}

}  // namespace farside::bench
