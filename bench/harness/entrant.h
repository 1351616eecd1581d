// entrant.h — the contenders of one race, as a benchmark enters them: those that cannot be started are left out, and
// the report says why.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness/contender.h"
#include "bench/harness/report.h"

namespace farside::bench {

struct Entrant {
  std::string name;
  Contender::Program program;
};

/// On which farside's jobs run, and the environment that says so.
struct Fabric {
  std::string name;
  std::map<std::string, std::string> environment;
  /// The words before a command that runs it on its host, where hosts differ.
  std::vector<std::string> on_lender = {};
  std::vector<std::string> on_user = {};

  [[nodiscard]] Contender::Program used_by(Contender::Program program) const;
};

[[nodiscard]] const Fabric& direct();
[[nodiscard]] const Fabric& over_tcp();

/// `ranks` processes of a sibling program, by `farside run`.
[[nodiscard]] Contender::Program farside_program(const Fabric& fabric, unsigned ranks, const std::string& program,
                                                 const std::vector<std::string>& arguments = {});
/// `ranks` processes of a sibling program that was built with MPI. `options` are mpirun's.
[[nodiscard]] Contender::Program mpi_program(unsigned ranks, const std::string& program,
                                             const std::vector<std::string>& options = {});

/// Null when it cannot be started.
[[nodiscard]] std::unique_ptr<Contender> start(const std::string& what, const Entrant& entrant, Report& report);

}  // namespace farside::bench
