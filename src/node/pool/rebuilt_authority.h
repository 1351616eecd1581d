// rebuilt_authority.h — a coordinator without nodes, for a pool on several machines that lost the machine of its own:
// it is started from a copy of the decisions (team/succession/log_copy.h), which may lack the last ones.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "node/pool/pool_directory.h"
#include "team/liveness.h"

namespace farside::node {

struct RebuiltAuthority {
  std::optional<std::filesystem::path> copy;  ///< none: it goes on with its own decisions
  std::string listen;
  std::filesystem::path secret;
  /// Ranks whose processes have ended for certain. All others of the copy are awaited, without a time limit.
  std::vector<team::Rank> lost;
  std::chrono::milliseconds silence = team::kDefaultSilence;
};

/// Coordinates the pool until SIGTERM or SIGINT. Its members go on then, and it may be started again without a copy.
/// Throws Error when it cannot begin: another one runs in `directory`, or the decisions are of no use.
void run_rebuilt_authority(const PoolDirectory& directory, const RebuiltAuthority& authority);

}  // namespace farside::node
