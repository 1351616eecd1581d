// machine_checks.h — what this machine has of what farside can use, for `farside doctor`.
#pragma once

#include <string>
#include <vector>

namespace farside::cli {

struct Check {
  enum class Verdict {
    good,
    limited,  ///< farside works, less well or not for everything
    missing,  ///< farside does not work without it
  };

  std::string group;  ///< "transport", "limit", "files" or "kernel"
  std::string name;
  Verdict verdict;
  std::string found;
  std::string advice;  ///< what to change; empty when good
};

[[nodiscard]] std::vector<Check> check_machine();

}  // namespace farside::cli
