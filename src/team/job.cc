#include "team/job.h"

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "net/runtime_dir.h"
#include "team/coordinator.h"
#include "team/environment.h"
#include "team/launcher.h"
#include "team/linked_libraries.h"
#include "team/member_card.h"

namespace farside::team {

namespace {

/// Such a program starts without an error, and each of its processes is an MPI job of its own.
void warn_of_mpi(const std::string& command) {
  for (const std::string& library : linked_libraries(find_program(command))) {
    if (library.rfind("libmpi", 0) != 0) continue;
    std::string warning = command;
    warning.append(" is linked with MPI (").append(library);
    warning.append(
        "): under farside run each of its processes is an MPI job of size 1; start it with mpirun or srun, ");
    warning.append("which form a farside team as well");
    log::warn(warning);
    return;
  }
}

}  // namespace

int run_job(Rank ranks, const std::vector<std::string>& command) {
  constexpr Rank kMaxRanks = 1024;
  if (ranks < 1 || ranks > kMaxRanks) {
    throw UsageError({"run", std::to_string(ranks) + " processes", "a job has 1 to " + std::to_string(kMaxRanks), ""});
  }
  if (!command.empty()) warn_of_mpi(command.front());
  const net::JobDir dir;
  const std::string secret_file = dir.path() / "secret";
  Coordinator coordinator(dir.path() / "coordinator", net::Secret::create(secret_file), ranks,
                          MemberCard::admission(MemberCard::of_this_process(0)));
  Launcher launcher({.command = command,
                     .ranks = ranks,
                     .environment = {std::string(kCoordinatorVariable) + "=" + coordinator.address(),
                                     std::string(kSecretFileVariable) + "=" + secret_file},
                     .on_end = [&](Rank rank, const std::string& how) { coordinator.miss(rank, how); }});
  const JobEnd end = launcher.wait();
  for (const std::string& failure : end.failures) log::error(failure);
  return end.code;
}

}  // namespace farside::team
