// job.h — an SPMD job on this machine.
#pragma once

#include <string>
#include <vector>

#include "farside/team/team.h"

namespace farside::team {

/// Runs `command` as `ranks` processes that form a team, prints which rank failed and how, and returns the job's exit
/// code (launcher.h). Throws UsageError for an impossible number of ranks, Error or ProgramError when the job cannot be
/// started.
int run_job(Rank ranks, const std::vector<std::string>& command);

}  // namespace farside::team
