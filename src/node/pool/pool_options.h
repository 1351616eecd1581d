// pool_options.h — a pool's options, as its nodes get them and as other processes must have them.
#pragma once

#include <string>
#include <vector>

#include "node/pool/pool.h"

namespace farside::node {

/// Those on which all machines of a pool must agree.
[[nodiscard]] std::string terms(const PoolOptions& options);
/// Starts a node of the pool (cli/node_command.cc).
[[nodiscard]] std::vector<std::string> node_command(const PoolDirectory& directory, const PoolOptions& options);
/// Those that a process must have which takes over the nodes of another one: the nodes have them.
[[nodiscard]] std::string fixed_options(const PoolDirectory& directory, const PoolOptions& options);

}  // namespace farside::node
