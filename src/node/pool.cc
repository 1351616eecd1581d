#include "node/pool.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/base/memory.h"
#include "farside/base/units.h"

#include "base/file_lock.h"
#include "base/signals_held.h"
#include "cache/geometry.h"
#include "node/mount_watch.h"
#include "node/process_watch.h"
#include "node/time_limits.h"
#include "team/coordinator.h"
#include "team/environment.h"
#include "team/launcher.h"
#include "team/member_card.h"

namespace farside::node {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::optional<FileLock> lock_within(const PoolDirectory& directory, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  for (;;) {
    if (auto lock = directory.try_lock()) return lock;
    if (steady_clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(node::time_limits::kLook);
  }
}

// Becomes a process without a terminal, whose output goes to `log`. Of the descriptors that the caller had open it
// keeps `lock` alone: a process that waits for the end of a pipe must not wait for the pool.
void detach(const std::filesystem::path& log, const FileLock& lock) {
  ::setsid();
  const auto kept = static_cast<unsigned>(lock.file().get());
  ::close_range(STDERR_FILENO + 1, kept - 1, 0);
  ::close_range(kept + 1, ~0U, 0);
  const Fd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!input || !output) throw errno_error("open", log);
  ::dup2(input.get(), STDIN_FILENO);
  ::dup2(output.get(), STDOUT_FILENO);
  ::dup2(output.get(), STDERR_FILENO);
}

int run_detached(const PoolDirectory& directory, const PoolOptions& options, const FileLock& lock) {
  try {
    detach(directory.log(), lock);
    return run_pool(directory, options);
  } catch (const std::exception& error) {
    log::error(error.what());
    return 1;
  }
}

// The options that are the same on every machine.
std::vector<std::string> common_options(const PoolOptions& options) {
  const cache::CacheOptions& cache = options.cache;
  return {"--cache=" + std::to_string(cache.cache_bytes), "--block=" + std::to_string(cache.block_bytes),
          "--groups=" + std::to_string(cache.groups),     "--singlet-ratio=" + std::to_string(cache.singlet_ratio),
          "--kv=" + std::to_string(options.kv_bytes),     "--kv-copies=" + std::to_string(options.kv_copies),
          "--far=" + std::to_string(options.far_bytes)};
}

std::string terms(const PoolOptions& options) {
  std::string text = "--nodes=" + std::to_string(options.all_nodes);
  for (const std::string& option : common_options(options)) text += " " + option;
  return text;
}

std::vector<std::string> node_command(const PoolDirectory& directory, const PoolOptions& options) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe"), "node",
                                      "--pool=" + directory.path().string()};
  for (std::string& option : common_options(options)) command.push_back(std::move(option));
  if (!options.kv_dir.empty())
    command.insert(command.end(), {"--kv-dir=" + options.kv_dir, "--kv-sync=" + options.kv_sync});
  if (!options.metrics.empty()) command.push_back("--metrics=" + options.metrics);
  return command;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<ProcessWatch> watch_nodes(const std::optional<PoolRecord>& record) {
  std::vector<ProcessWatch> watches;
  if (record) {
    for (const PoolRecord::Node& node : record->nodes) watches.emplace_back(node.process);
  }
  return watches;
}

// Throws Error when a node has ended.
StartProgress progress_of(const PoolDirectory& directory) {
  const auto record = directory.read_record();
  StartProgress progress;
  for (const PoolRecord::Node& node : record ? record->nodes : std::vector<PoolRecord::Node>{}) {
    progress.recovered_bytes += directory.read_recovered(node.rank);
    if (ask_status(directory.node_socket(node.rank), node::time_limits::kStatus).state ==
        SocketStatus::State::answered) {
      ++progress.ready;
    } else if (ProcessWatch(node.process).ended()) {
      throw Error({"start", "node " + std::to_string(node.rank), "it has ended", ""});
    }
  }
  return progress;
}

void wait_until_ready(const PoolDirectory& directory, team::Rank nodes, const ProcessWatch& supervisor,
                      const SignalsHeld& signals, const std::function<void(const StartProgress&)>& show) {
  StartProgress progress;
  ProgressDeadline deadline(node::time_limits::kStart, steady_clock::now());
  for (; progress.ready < nodes; progress = progress_of(directory)) {
    show(progress);
    if (deadline.has_passed(steady_clock::now(), progress)) {
      throw Error(
          {"start", "the pool", std::to_string(progress.ready) + " of its nodes were ready in time", "try again"});
    }
    if (signals.any_came()) throw Error({"start", "the pool", "it was interrupted", ""});
    if (supervisor.wait(node::time_limits::kLook)) throw Error({"start", "the pool", "its process has ended", ""});
  }
  show(progress);
}

// The kernel kills the nodes of a pool with its supervisor. Returns when they have ended.
void wait_for_killed_nodes(const PoolDirectory& directory) {
  for (const ProcessWatch& node : watch_nodes(directory.read_record())) {
    if (!node.wait(node::time_limits::kKill)) {
      throw Error({"start", "a pool", "a node of the one that was killed does not go away",
                   "is it waiting for a file system?"});
    }
  }
}

Error no_pool() { return Error({"find", "a pool", "no pool is running", "start one with farside up"}); }

PoolRecord record_of_running_pool(const PoolDirectory& directory) {
  const auto record = directory.read_record();
  if (!record) throw Error({"reach", "the pool", "it is just starting or ending", "try again"});
  return *record;
}

}  // namespace

std::uint64_t default_cache_bytes(team::Rank nodes, std::uint64_t block_bytes) {
  constexpr std::uint64_t kUsual = 1U << 30U;
  if (block_bytes == 0) return 0;  // refused with the cache's other options
  const std::uint64_t share = available_memory_bytes() / 2 / nodes;
  return std::max(std::min(kUsual, share) / block_bytes, std::uint64_t{2}) * block_bytes;
}

FileLock prepare_pool(const PoolDirectory& directory, const PoolOptions& options) {
  const cache::Geometry geometry(options.cache, options.all_nodes);
  const std::uint64_t of_node =
      geometry.layout().region_bytes + options.kv_bytes * options.kv_copies + options.far_bytes;
  const std::uint64_t needed = of_node * options.nodes;
  const std::uint64_t available = available_memory_bytes();
  if (needed > available) {
    throw Error({"start", "a pool of " + std::to_string(options.nodes) + " nodes",
                 "it needs " + format_bytes(needed) + " of memory and " + format_bytes(available) + " are available",
                 "choose less with --cache, --kv or --far (for each node) or -n"});
  }
  std::optional<FileLock> lock = lock_within(directory, node::time_limits::kLock);
  if (!lock) {
    throw Error({"start", "a pool", "one is running in " + directory.path().string(),
                 "use it, end it with farside down, or set FARSIDE_RUNTIME_DIR to have another"});
  }
  if (options.listen.empty() && std::filesystem::exists(directory.decisions())) {
    throw Error({"start", "another pool",
                 "one on several machines met here and was not ended; its nodes may be waiting",
                 "go on with it (farside up --listen, as before), or give it up with farside down"});
  }
  wait_for_killed_nodes(directory);
  if (directory.clean()) log::warn("removed what a killed pool had left in " + directory.path().string());
  directory.keep_log();
  return std::move(*lock);
}

int run_pool(const PoolDirectory& directory, const PoolOptions& options) {
  const bool own_secret = options.secret.empty();
  const std::filesystem::path secret = own_secret ? directory.secret() : options.secret;
  if (!own_secret)
    net::Secret::load(secret).save(directory.secret());  // where this machine's clients of kv look for it
  std::optional<team::Coordinator> coordinator;
  // On one machine no node outlives its supervisor: there is nothing to take over.
  std::optional<team::Coordinator::Log> decisions;
  if (!options.listen.empty()) decisions = {.path = directory.decisions(), .terms = terms(options)};
  if (options.join.empty()) {
    team::MemberCard expected = team::MemberCard::of_this_process(0);
    expected.terms = terms(options);
    coordinator.emplace(options.listen.empty() ? directory.coordinator().string() : options.listen,
                        own_secret ? net::Secret::create(secret) : net::Secret::load(secret), options.all_nodes,
                        team::MemberCard::admission(std::move(expected)), decisions, options.silence);
    for (team::Rank rank = options.first_rank; rank < options.first_rank + options.nodes; ++rank)
      coordinator->report_dead(rank);  // prepare_pool saw it
  }
  const std::string meeting = coordinator ? coordinator->address() : options.join;
  PoolRecord record{.supervisor = ::getpid(),
                    .nodes = {},
                    .cache_bytes = options.cache.cache_bytes,
                    .block_bytes = options.cache.block_bytes,
                    .groups = options.cache.groups,
                    .kv_bytes = options.kv_bytes,
                    .kv_copies = options.kv_copies,
                    .far_bytes = options.far_bytes};
  const auto record_restart = [&](team::Rank rank, pid_t process) {
    PoolRecord::Node& node = record.nodes.at(rank - options.first_rank);
    node.process = process;
    ++node.restarts;
    try {
      directory.write_record(record);
    } catch (const Error& error) {  // the nodes serve all the same
      log::error(std::string("farside status shows the former processes until the next restart: ") + error.what());
    }
  };
  const SharedMountWatch mount_watch = share_mount_watch();
  std::vector<std::string> environment = {std::string(team::kCoordinatorVariable) + "=" + meeting,
                                          std::string(team::kSecretFileVariable) + "=" + secret.string(),
                                          std::string(team::kTermsVariable) + "=" + terms(options)};
  if (mount_watch.instance) environment.push_back(mount_watch.variable);
  team::Launcher launcher({.command = node_command(directory, options),
                           .ranks = options.nodes,
                           .first_rank = options.first_rank,
                           .environment = std::move(environment),
                           .end_all_on_failure = false,
                           .on_end =
                               [&](team::Rank rank, const std::string& how) {
                                 if (coordinator) coordinator->miss(rank, how);
                               },
                           .restart = team::RestartPolicy{},
                           .on_restart = record_restart});
  for (team::Rank rank = options.first_rank; rank < options.first_rank + options.nodes; ++rank) {
    record.nodes.push_back({rank, launcher.pid(rank)});
  }
  directory.write_record(record);
  const team::JobEnd end = launcher.wait();
  // If the nodes of this machine failed, those of others go on, and it can be started again.
  if (coordinator && end.was_asked) coordinator->end_team();
  if (end.failures.empty()) directory.clean();  // otherwise the record stays, which start_pool looks at
  return end.code;
}

void start_pool(const PoolDirectory& directory, const PoolOptions& options, FileLock lock,
                const std::function<void(const StartProgress&)>& show) {
  const bool takes_over = std::filesystem::exists(directory.decisions());
  const SignalsHeld signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};  // Ctrl-C ends this process when it has ended the pool
  const pid_t child = ::fork();
  if (child < 0) throw errno_error("start", "the pool's process", "raise ulimit -u");
  if (child == 0) {
    signals.let_go();
    std::_Exit(run_detached(directory, options, lock));
  }
  lock.leave_to_child();
  const ProcessWatch supervisor(child);
  try {
    wait_until_ready(directory, options.nodes, supervisor, signals, show);
  } catch (const Error& error) {
    const std::string words = read_text(directory.log());
    const std::vector<ProcessWatch> nodes = watch_nodes(directory.read_record());
    supervisor.signal(SIGKILL);  // and its nodes with it
    ::waitpid(child, nullptr, 0);
    for (const ProcessWatch& node : nodes) (void)node.wait(node::time_limits::kKill);
    if (const auto free = lock_within(directory, node::time_limits::kKill)) {
      directory.clean();
      if (!takes_over) directory.forget_team();  // it may be tried again with other options
      directory.drop_log();
    }
    throw Error({error.failure().tried, error.failure().on, error.failure().why, "what was said:\n" + words});
  }
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
  if (!directory.is_locked()) throw no_pool();
  PoolStatus status{record_of_running_pool(directory), {}};
  for (const PoolRecord::Node& node : status.record.nodes) {
    const SocketStatus socket = ask_status(directory.node_socket(node.rank), node::time_limits::kStatus);
    status.nodes.push_back({node, socket, !ProcessWatch(node.process).ended()});
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
  if (const auto lock = directory.try_lock()) {
    const bool had_files = directory.clean();
    if (!directory.forget_team() && !had_files) throw no_pool();
    return PoolEnd::leftover;
  }
  const PoolRecord record = record_of_running_pool(directory);
  const ProcessWatch supervisor(record.supervisor);
  const std::vector<ProcessWatch> nodes = watch_nodes(record);
  supervisor.signal(SIGTERM);  // it passes it on
  const bool ended = supervisor.wait(node::time_limits::kEnd);
  if (!ended) supervisor.signal(SIGKILL);  // and its nodes with it, even stopped ones
  for (const ProcessWatch& node : nodes) {
    if (!node.wait(node::time_limits::kKill)) {
      throw Error({"end", "the pool", "a node does not go away", "is it waiting for a file system?"});
    }
  }
  const auto lock = lock_within(directory, node::time_limits::kKill);
  if (!lock) throw Error({"end", "the pool", "another one was started meanwhile", "end that one, too"});
  directory.clean();
  if (!ended) directory.forget_team();
  return ended ? PoolEnd::ended : PoolEnd::killed;
}

}  // namespace farside::node
