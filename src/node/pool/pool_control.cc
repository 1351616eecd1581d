// The commands' side of pool.h for a pool that runs: ask how it is, and end it.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "farside/base/error.h"

#include "fabric/host/process.h"
#include "node/pool/node_lock.h"
#include "node/pool/pool.h"
#include "node/pool/process_watch.h"
#include "node/time_limits.h"

namespace farside::node {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Error no_pool() { return Error({"find", "a pool", "no pool is running", "start one with farside up"}); }

Error just_starting() { return Error({"reach", "the pool", "it is just starting or ending", "try again"}); }

PoolRecord record_of_running_pool(const PoolDirectory& directory) {
  const auto record = directory.read_record();
  if (!record) throw just_starting();
  return *record;
}

// The caller has the lock.
PoolEnd end_without_supervisor(const PoolDirectory& directory) {
  std::vector<RunningNode> running = directory.running_nodes();
  const bool is_leftover = running.empty();
  const bool ended = end_nodes(std::move(running), node::time_limits::kEnd);
  const bool had_files = directory.clean();
  if (!directory.forget_team() && !had_files) throw no_pool();
  directory.forget_copy();
  if (is_leftover) return PoolEnd::leftover;
  return ended ? PoolEnd::ended : PoolEnd::killed;
}

}  // namespace

std::optional<std::uint64_t> cache_bytes_of_running_nodes(const PoolDirectory& directory) {
  const auto record = directory.read_record();
  if (!record || directory.running_nodes().empty()) return std::nullopt;
  return record->cache_bytes;
}

bool PoolStatus::lacks_coordinator() const {
  return std::ranges::any_of(nodes, [](const NodeStatus& node) {
    return node.socket.state == SocketStatus::State::answered && node.socket.reply.lacks_coordinator != 0;
  });
}

std::set<team::Rank> PoolStatus::lost_elsewhere() const {
  std::set<team::Rank> lost;
  for (const NodeStatus& node : nodes) {
    if (node.socket.state != SocketStatus::State::answered) continue;
    const auto members = std::min<std::uint64_t>(node.socket.reply.members, cache::node_socket::kMaxMembers);
    for (team::Rank rank = 0; rank < members; ++rank) {
      if ((node.socket.reply.lost.at(rank / 64) >> rank % 64 & 1U) != 0) lost.insert(rank);
    }
  }
  for (const NodeStatus& node : nodes) lost.erase(node.node.rank);
  return lost;
}

PoolStatus pool_status(const PoolDirectory& directory) {
  const bool has_supervisor = directory.is_locked();
  const std::vector<RunningNode> running = has_supervisor ? std::vector<RunningNode>{} : directory.running_nodes();
  if (!has_supervisor && running.empty()) throw no_pool();
  PoolStatus status{record_of_running_pool(directory), {}, has_supervisor};
  for (const PoolRecord::Node& node : status.record.nodes) {
    const SocketStatus socket = ask_status(directory.node_socket(node.rank), node::time_limits::kStatus);
    const bool runs = has_supervisor ? !ProcessWatch(node.process).ended()
                                     : std::ranges::find(running, node.rank, &RunningNode::rank) != running.end();
    status.nodes.push_back({node, socket, runs});
  }
  return status;
}

PoolStatus pool_status_when_up(const PoolDirectory& directory, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  for (;; std::this_thread::sleep_for(node::time_limits::kLook)) {
    const bool last = steady_clock::now() > deadline;
    try {
      PoolStatus status = pool_status(directory);
      const auto up = std::ranges::count(status.nodes, SocketStatus::State::answered,
                                         [](const NodeStatus& node) { return node.socket.state; });
      if (last || (std::cmp_equal(up, status.nodes.size()) && status.lost_elsewhere().empty())) return status;
    } catch (const Error&) {
      if (last) throw;  // until then it may be just starting
    }
  }
}

PoolEnd end_pool(const PoolDirectory& directory) {
  if (const auto lock = directory.try_lock()) return end_without_supervisor(directory);
  const PoolRecord record = record_of_running_pool(directory);
  // The record may be the former supervisor's: that of nodes which are just being taken over.
  const ProcessWatch supervisor(open_process({record.supervisor, record.supervisor_started}));
  const bool was_there = !supervisor.ended();
  supervisor.signal(SIGTERM);  // it passes it on
  const bool ended = supervisor.wait(node::time_limits::kEnd);
  if (!ended) supervisor.signal(SIGKILL);
  const auto lock = directory.lock_within(was_there ? node::time_limits::kKill : node::time_limits::kLock);
  if (!lock && !was_there) throw just_starting();
  if (!lock) throw Error({"end", "the pool", "another pool was started concurrently", "run farside down again"});
  // Those are left that it was not there to end, or that hang.
  const bool all_ended = end_nodes(directory.running_nodes(), node::time_limits::kEnd);
  (void)directory.clean();                                  // its supervisor may have removed the files, ...
  if (!ended || !was_there) (void)directory.forget_team();  // ... and the decisions are those of several machines only
  directory.forget_copy();
  return ended && all_ended ? PoolEnd::ended : PoolEnd::killed;
}

}  // namespace farside::node
