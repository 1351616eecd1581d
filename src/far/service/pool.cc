#include "farside/far/pool.h"

#include <algorithm>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/base/units.h"

#include "far/service/pool_use.h"
#include "far/service/pooled_space.h"
#include "far/spill/spilled_space.h"
#include "far/time_limits.h"
#include "net/runtime_dir.h"
#include "service/service_socket.h"

namespace farside::far {

namespace {

std::unique_ptr<PoolNodes> find_nodes(const PoolOptions& options, net::SetupClock::time_point deadline) {
  const std::filesystem::path pool = options.runtime_dir.empty() ? net::runtime_dir() : options.runtime_dir;
  const auto entries =
      options.server.empty() ? service::service_sockets(pool, kServiceName) : std::vector<std::string>{options.server};
  if (entries.empty()) {
    throw Error(
        {"find far memory in", pool, "no pool that lends any is running", "start one with farside up --far SIZE"});
  }
  const net::Secret secret = net::Secret::load(options.secret.empty() ? pool / "secret" : options.secret);
  return std::make_unique<PoolNodes>(entries, far_secret(secret), deadline);
}

Protection protection_of(const PoolOptions& options, const PoolNodes& nodes) {
  const auto refuse = [](std::string why, std::string remedy) {
    throw UsageError({"protect", "what far memory holds", std::move(why), std::move(remedy)});
  };
  if (!options.protection && nodes.are_spread()) {
    refuse("it is not said what the loss of a node means",
           "choose to mirror, to spill to a file, or to trust the nodes");
  }
  if ((options.protection == Protection::spill) == options.spill.empty()) {
    refuse(options.spill.empty() ? "no file is named to spill to" : "a file to spill to is named, and not to be used",
           "choose to spill, and name a file");
  }
  if (!options.protection) log::info("far memory: the nodes of this machine are trusted; what one has is lost with it");
  const Protection protection = options.protection.value_or(Protection::trust_nodes);
  if (protection == Protection::mirror && nodes.size() < 2) {
    refuse("to mirror takes two nodes, and the pool has one", "start it with -n 2 or more");
  }
  return protection;
}

std::uint64_t all_that_is_left(const PoolOptions& options, std::uint32_t copies) {
  std::uint64_t slab_bytes = 0;
  std::vector<std::uint64_t> free_slabs;
  for (const auto& use : ask_use(options)) {
    if (!use) continue;
    slab_bytes = use->slab_bytes;
    free_slabs.push_back(use->slabs() - use->taken);
  }
  const std::uint64_t bytes = room_for(free_slabs, copies) * slab_bytes;
  if (bytes != 0) return bytes;
  throw Error({"take", "far memory", "the pool has none left", "start a pool with more: farside up --far SIZE"});
}

}  // namespace

std::unique_ptr<Space> open_pool(const PoolOptions& options) {
  const auto deadline = net::SetupClock::now() + options.time_out;
  auto nodes = find_nodes(options, deadline);
  const std::uint32_t copies = protection_of(options, *nodes) == Protection::mirror ? 2 : 1;
  const std::uint64_t bytes = options.all_that_is_left ? all_that_is_left(options, copies) : options.bytes;
  auto space = std::make_unique<PooledSpace>(std::move(nodes), bytes, copies, !options.spill.empty(), deadline);
  // The room that was left a moment ago is no promise of the pool's: nothing is lent before it is written to.
  const std::uint64_t room =
      options.all_that_is_left ? bytes : space->room_bytes(space->fabric().in(time_limits::kUse));
  if (room < bytes) {
    throw Error({"take", format_bytes(bytes) + " of far memory",
                 "the pool has " + format_bytes(room) + " left" + (copies == 2 ? ", mirrored" : ""),
                 "take less, or start the pool with more --far"});
  }
  if (options.spill.empty()) return space;
  const std::uint64_t slab_bytes = space->slab_bytes();
  Unresponsive unresponsive = space->unresponsive();
  return std::make_unique<SpilledSpace>(std::move(space), slab_bytes, options.spill, std::move(unresponsive));
}

std::vector<std::optional<LentUse>> ask_use(const PoolOptions& options) {
  const auto deadline = net::SetupClock::now() + options.time_out;
  const auto nodes = find_nodes(options, deadline);
  const auto channel = nodes->fabric().open_channel();
  std::vector<std::optional<LentUse>> uses(nodes->size());
  for (std::uint32_t node = 0; node < nodes->size(); ++node) {
    const auto until = net::share_of(deadline, nodes->size() - node);
    try {
      const auto memory = nodes->link(node, until, [] {});
      const Duration rest = until - net::SetupClock::now();
      uses[node] = memory->use(*channel, nodes->fabric().in(std::min<Duration>(rest, time_limits::kUse)));
    } catch (const Error& error) {
      log::debug(error.what());
    }
  }
  return uses;
}

}  // namespace farside::far
