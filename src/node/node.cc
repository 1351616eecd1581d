#include "node/node.h"

#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include <sys/resource.h>

#include "farside/base/log.h"
#include "farside/team/team.h"

#include "node/board.h"
#include "node/door.h"
#include "node/door_server.h"
#include "node/prefaulter.h"

namespace farside {

namespace {

sigset_t block_ending_signals() {
  sigset_t ending;
  ::sigemptyset(&ending);
  ::sigaddset(&ending, SIGTERM);
  ::sigaddset(&ending, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  return ending;
}

// A descriptor for each program that reads through this node; the usual soft limit is far below what is allowed.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

void run_node(const PoolDirectory& pool, const CacheOptions& options) {
  const sigset_t ending = block_ending_signals();  // first: threads inherit it
  allow_many_files();

  const std::unique_ptr<Team> team = join_team();
  log::set_prefix("node " + std::to_string(team->rank()));
  std::optional<Board> board;  // made when the cache knows its size, but outlives it
  Cache cache(*team, options);
  cache.set_board(board.emplace(cache.layout().slot_count));
  Prefaulter prefaulter(cache.region(), cache.layout());
  Door door(*team, cache, *board, prefaulter);
  const DoorServer server(team->fabric(), door, pool.door(team->rank()));

  int signal_number = 0;
  ::sigwait(&ending, &signal_number);
}

}  // namespace farside
