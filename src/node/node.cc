#include "node/node.h"

#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/team/team.h"

#include "base/file_limit.h"
#include "base/signals_held.h"
#include "node/board.h"
#include "node/far_lender.h"
#include "node/kv_server.h"
#include "node/prefaulter.h"
#include "node/request_handler.h"
#include "node/socket_server.h"

namespace farside::node {

namespace {

constexpr int kCutOff = SIGUSR1;  // which this process sends itself

// The memory that a node lends is shared, and may be most of the machine's: a core of it would fill the disk, and is of
// no use for finding an error. Without /proc, or a kernel that dumps, nothing happens.
void keep_shared_memory_out_of_cores() {
  constexpr unsigned kShared = 1U << 1U | 1U << 3U | 1U << 6U;  // core(5): anonymous, files', large pages
  const std::string path = "/proc/self/coredump_filter";
  unsigned filter = 0;
  if (std::ifstream(path) >> std::hex >> filter) std::ofstream(path) << "0x" << std::hex << (filter & ~kShared);
}

// Returns when this process is to end as it should.
void serve_until_asked_to_end(const SignalsHeld& signals) {
  if (signals.wait() != kCutOff) return;
  // Perhaps the whole pool ends, and the other machines were faster.
  sigset_t requests = signals.held();
  ::sigdelset(&requests, kCutOff);
  constexpr timespec kGrace{1, 0};
  if (::sigtimedwait(&requests, nullptr, &kGrace) > 0) return;
  throw Error({"stay in", "the pool", "this node was cut off from the others",
               "it restarts, empty, once the link is repaired"});
}

}  // namespace

void run_node(const PoolDirectory& pool, const cache::CacheOptions& options, const KvNodeOptions& kv_options,
              std::uint64_t far_bytes, const std::function<void(team::Rank)>& joined) {
  SignalsHeld signals{SIGTERM, SIGINT, kCutOff};  // first: threads inherit it
  signals.keep();
  allow_many_files();
  keep_shared_memory_out_of_cores();

  const std::unique_ptr<team::Team> team = team::join_team();
  log::set_prefix("node " + std::to_string(team->rank()));
  joined(team->rank());
  std::optional<Board> board;  // made when the cache knows its size, but outlives it
  cache::Cache cache(*team, options);
  cache.set_board(board.emplace(cache.layout().slot_count));
  std::optional<FarLender> lender;
  if (far_bytes != 0) lender.emplace(pool, *team, far_bytes);
  std::optional<KvServer> kv;
  if (kv_options.bytes != 0) kv.emplace(pool, *team, kv_options);
  Prefaulter prefaulter(cache.region(), cache.layout());
  RequestHandler handler(*team, cache, *board, prefaulter);
  const SocketServer server(team->fabric(), handler, pool.node_socket(team->rank()));

  team->on_cut_off([] { ::kill(::getpid(), kCutOff); });
  serve_until_asked_to_end(signals);
}

}  // namespace farside::node
