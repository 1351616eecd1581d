#include "team/bootstrap.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "farside/base/error.h"

#include "net/secret.h"
#include "team/coordinator_client.h"
#include "team/environment.h"

namespace farside::team {

namespace {

/// A team of one.
class SoloBootstrap final : public Bootstrap {
 public:
  [[nodiscard]] Rank rank() const override { return 0; }
  [[nodiscard]] Rank size() const override { return 1; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 0; }
  [[nodiscard]] std::vector<std::string> exchange(const std::string&, std::string blob,
                                                  net::SetupClock::time_point) override {
    return {std::move(blob)};
  }
  void evict(Rank, std::uint16_t) override {}
  void leave() override {}
};

std::string required(const char* variable) {
  const char* value = ::secure_getenv(variable);
  if (value == nullptr) {
    throw UsageError({"join the team of", std::string("$") + kCoordinatorVariable,
                      std::string(variable) + " is not set", "start the program with farside run"});
  }
  return value;
}

Rank required_rank() {
  const std::string text = required(kRankVariable);
  Rank rank = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (code != std::errc{} || end != text.data() + text.size()) {
    throw UsageError({"read", kRankVariable, "'" + text + "' is not a rank", "start the program with farside run"});
  }
  return rank;
}

// Each process that such a launcher starts would take itself for a whole team, and nothing would show it.
void refuse_launchers_without_pmix() {
  struct Launcher {
    const char* size;  ///< its variable that tells how many processes it started
    const char* remedy;
  };
  for (const auto& [size, remedy] : {Launcher{"SLURM_STEP_NUM_TASKS", "start the program with srun --mpi=pmix"},
                                     Launcher{"PMI_SIZE", "start the program with Open MPI's mpirun or farside run"}}) {
    const char* processes = std::getenv(size);
    if (processes == nullptr || std::string_view(processes) == "1") continue;
    throw UsageError({"join a team", "of " + std::string(processes) + " processes",
                      std::string("$") + size + " is set, but the launcher offers no PMIx", remedy});
  }
}

// Otherwise each of its processes would be a team of one.
void refuse_rights_beside_a_launcher() {
  if (::secure_getenv(kCoordinatorVariable) != nullptr || std::getenv(kCoordinatorVariable) == nullptr) return;
  throw UsageError({"join the team of", std::string("$") + kCoordinatorVariable,
                    "this program has rights that its caller lacks (setuid, file capabilities), so its environment "
                    "is not used",
                    "start it without such rights"});
}

}  // namespace

std::unique_ptr<Bootstrap> bootstrap_from_environment(net::EventLoop& loop, MembershipNotices notices,
                                                      net::SetupClock::time_point deadline) {
  if (const char* coordinator = ::secure_getenv(kCoordinatorVariable)) {
    return std::make_unique<CoordinatorClient>(loop, coordinator, net::Secret::load(required(kSecretFileVariable)),
                                               required_rank(), std::move(notices), deadline);
  }
  if (::secure_getenv("PMIX_NAMESPACE") != nullptr && ::secure_getenv("PMIX_RANK") != nullptr) {
    return make_pmix_bootstrap();
  }
  refuse_rights_beside_a_launcher();
  refuse_launchers_without_pmix();
  return std::make_unique<SoloBootstrap>();
}

}  // namespace farside::team
