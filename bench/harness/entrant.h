// entrant.h — the contenders of one race, as a benchmark enters them: those that cannot be started are left out, and
// the report says why.
#pragma once

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

/// `ranks` processes of a sibling program that was built with MPI. `options` are mpirun's.
[[nodiscard]] Contender::Program mpi_program(unsigned ranks, const std::string& program,
                                             const std::vector<std::string>& options = {});

/// Null when it cannot be started.
[[nodiscard]] std::unique_ptr<Contender> start(const std::string& what, const Entrant& entrant, Report& report);

}  // namespace farside::bench
