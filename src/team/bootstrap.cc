#include "team/bootstrap.h"

#include <charconv>
#include <cstdlib>

#include "farside/base/error.h"

#include "team/coordinator_client.h"
#include "team/environment.h"
#include "team/secret.h"

namespace farside {

namespace {

/// A team of one.
class SoloBootstrap final : public Bootstrap {
 public:
  [[nodiscard]] Rank rank() const override { return 0; }
  [[nodiscard]] Rank size() const override { return 1; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 0; }
  [[nodiscard]] std::vector<std::string> exchange(const std::string&, std::string blob,
                                                  SetupClock::time_point) override {
    return {std::move(blob)};
  }
  void evict(Rank) override {}
  void leave() override {}
};

std::string required(const char* variable) {
  const char* value = std::getenv(variable);
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

}  // namespace

std::unique_ptr<Bootstrap> bootstrap_from_environment(EventLoop& loop, MembershipNotices notices,
                                                      SetupClock::time_point deadline) {
  if (const char* coordinator = std::getenv(kCoordinatorVariable)) {
    return std::make_unique<CoordinatorClient>(loop, coordinator, Secret::load(required(kSecretFileVariable)),
                                               required_rank(), std::move(notices), deadline);
  }
  if (std::getenv("PMIX_NAMESPACE") != nullptr && std::getenv("PMIX_RANK") != nullptr) return make_pmix_bootstrap();
  return std::make_unique<SoloBootstrap>();
}

}  // namespace farside
