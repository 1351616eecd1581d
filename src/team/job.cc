#include "team/job.h"

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "team/coordinator.h"
#include "team/environment.h"
#include "team/launcher.h"
#include "team/runtime_dir.h"

namespace farside {

int run_job(Rank ranks, const std::vector<std::string>& command) {
  constexpr Rank kMaxRanks = 1024;
  if (ranks < 1 || ranks > kMaxRanks) {
    throw UsageError({"run", std::to_string(ranks) + " processes", "a job has 1 to " + std::to_string(kMaxRanks), ""});
  }
  const JobDir dir;
  const std::string secret_file = dir.path() / "secret";
  Coordinator coordinator(dir.path() / "coordinator", Secret::create(secret_file), ranks);
  Launcher launcher({.command = command,
                     .ranks = ranks,
                     .environment = {std::string(kCoordinatorVariable) + "=" + coordinator.address(),
                                     std::string(kSecretFileVariable) + "=" + secret_file},
                     .on_end = [&](Rank rank, const std::string& how) { coordinator.miss(rank, how); }});
  const JobEnd end = launcher.wait();
  for (const std::string& failure : end.failures) log::error(failure);
  return end.code;
}

}  // namespace farside
