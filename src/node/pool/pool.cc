#include "node/pool/pool.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
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
#include "node/pool/node_lock.h"
#include "node/pool/pool_options.h"
#include "node/pool/process_watch.h"
#include "node/pool/supervisor.h"
#include "node/time_limits.h"

namespace farside::node {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

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

// From `offset` on.
std::string read_text(const std::filesystem::path& path, std::uintmax_t offset) {
  std::ifstream file(path);
  file.seekg(static_cast<std::streamoff>(offset));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uintmax_t size_of(const std::filesystem::path& file) {
  std::error_code missing;
  const std::uintmax_t bytes = std::filesystem::file_size(file, missing);
  return missing ? 0 : bytes;
}

/// A pool whose supervisor was started.
class StartingPool {
 public:
  StartingPool(const PoolDirectory& directory, const PoolOptions& options, pid_t supervisor, bool takes_over)
      : directory_(directory),
        options_(options),
        process_(supervisor),
        supervisor_(supervisor),
        takes_over_(takes_over) {}

  /// Throws Error.
  void wait_until_ready(const SignalsHeld& signals, const std::function<void(const StartProgress&)>& show) const;
  /// Ends it, with its nodes; and the team, unless that is one which goes on with what another pool had decided.
  void undo(bool goes_on) const;
  /// Returns what is left of one that took over the nodes of another, when it is not ready.
  [[nodiscard]] std::string state() const;

 private:
  [[nodiscard]] StartProgress progress() const;

  const PoolDirectory& directory_;
  const PoolOptions& options_;
  const pid_t process_;
  const ProcessWatch supervisor_;
  const bool takes_over_;
};

// Throws Error when a node has ended; one that was taken over may have, and is started again. Nodes that were taken
// over find the coordinator again.
StartProgress StartingPool::progress() const {
  const auto record = directory_.read_record();
  StartProgress progress;
  if (!record || record->supervisor != process_) return progress;
  for (const PoolRecord::Node& node : record->nodes) {
    progress.recovered_bytes += directory_.read_recovered(node.rank);
    const SocketStatus status = ask_status(directory_.node_socket(node.rank), node::time_limits::kStatus);
    if (status.state == SocketStatus::State::answered) {
      if (!options_.join.empty() || status.reply.lacks_coordinator == 0) ++progress.ready;
    } else if (!takes_over_ && ProcessWatch(node.process).ended()) {
      throw Error({"start", "node " + std::to_string(node.rank), "it has ended", ""});
    }
  }
  return progress;
}

void StartingPool::wait_until_ready(const SignalsHeld& signals,
                                    const std::function<void(const StartProgress&)>& show) const {
  StartProgress now;
  ProgressDeadline deadline(node::time_limits::kStart, steady_clock::now());
  for (; now.ready < options_.nodes; now = progress()) {
    show(now);
    if (deadline.has_passed(steady_clock::now(), now)) {
      throw Error({"start", "the pool", std::to_string(now.ready) + " of its nodes were ready in time", "try again"});
    }
    if (signals.any_came()) throw Error({"start", "the pool", "it was interrupted", ""});
    if (supervisor_.wait(node::time_limits::kLook)) throw Error({"start", "the pool", "its process has ended", ""});
  }
  show(now);
}

void StartingPool::undo(bool goes_on) const {
  supervisor_.signal(SIGKILL);
  ::waitpid(process_, nullptr, 0);
  const auto lock = directory_.lock_within(node::time_limits::kKill);
  if (!lock) return;  // another one was started
  (void)end_nodes(directory_.running_nodes(), milliseconds(0));
  (void)directory_.clean();                      // there may be no files yet
  if (!goes_on) (void)directory_.forget_team();  // it may be tried again with other options
  directory_.drop_log();
}

std::string StartingPool::state() const {
  if (!supervisor_.ended()) return "the pool's process goes on (farside status); ";
  ::waitpid(process_, nullptr, 0);
  return "the nodes that ran go on; ";
}

// The nodes of another pool are neither taken over nor in the way of memory.
void expect_same_pool(const PoolDirectory& directory, const PoolOptions& options) {
  const auto refuse = [&directory](const std::string& why, const std::string& remedy) {
    throw Error({"start a pool", "in " + directory.path().string(),
                 "nodes run there, whose process of farside up has ended, and " + why, remedy});
  };
  const auto record = directory.read_record();
  if (!record) refuse("the record of them is missing", "end them with farside down");
  if (record->options != fixed_options(directory, options)) {
    refuse("they have other options: " + record->options,
           "run farside up with the options and the version that they have, or end them with farside down");
  }
  const std::filesystem::path decisions = options.listen.empty() ? directory.own_decisions() : directory.decisions();
  const bool keeps_decisions = options.join.empty() && options.authority.empty();
  if (keeps_decisions && !std::filesystem::exists(decisions))
    refuse("what the pool had decided is lost: there is no " + decisions.string(), "end them with farside down");
}

void expect_memory(std::uint64_t of_node, team::Rank nodes) {
  const std::uint64_t needed = of_node * nodes;
  const std::uint64_t available = available_memory_bytes();
  if (needed <= available) return;
  throw Error({"start", "a pool of " + std::to_string(nodes) + " nodes",
               "it needs " + format_bytes(needed) + " of memory and " + format_bytes(available) + " are available",
               "choose less with --cache, --kv or --far (for each node) or -n"});
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
  std::optional<FileLock> lock = directory.lock_within(node::time_limits::kLock);
  if (!lock) {
    throw Error({"start", "a pool", "one is running in " + directory.path().string(),
                 "use it, end it with farside down, or set FARSIDE_RUNTIME_DIR to have another"});
  }
  const std::size_t running = directory.running_nodes().size();
  if (running != 0) expect_same_pool(directory, options);
  expect_memory(of_node, options.nodes - std::min<team::Rank>(options.nodes, static_cast<team::Rank>(running)));
  if (running != 0) return std::move(*lock);
  if (options.listen.empty() && std::filesystem::exists(directory.decisions())) {
    throw Error({"start", "another pool",
                 "one on several machines met here and was not ended; its nodes may be waiting",
                 "go on with it (farside up --listen, as before), or give it up with farside down"});
  }
  if (directory.clean()) log::warn("removed what a killed pool had left in " + directory.path().string());
  directory.keep_log();
  return std::move(*lock);
}

int run_pool(const PoolDirectory& directory, const PoolOptions& options) {
  return Supervisor(directory, options).run();
}

void start_pool(const PoolDirectory& directory, const PoolOptions& options, FileLock lock,
                const std::function<void(const StartProgress&)>& show) {
  const bool goes_on = std::filesystem::exists(directory.decisions());
  const bool takes_over = directory.read_record().has_value();
  const std::uintmax_t said_before = takes_over ? size_of(directory.log()) : 0;
  const SignalsHeld signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};  // Ctrl-C ends this process when it has ended the pool
  const pid_t child = ::fork();
  if (child < 0) throw errno_error("start", "the pool's process", "raise ulimit -u");
  if (child == 0) {
    signals.let_go();
    std::_Exit(run_detached(directory, options, lock));
  }
  lock.leave_to_child();
  const StartingPool starting{directory, options, child, takes_over};
  try {
    starting.wait_until_ready(signals, show);
  } catch (const Error& error) {
    const std::string said = "what was said:\n" + read_text(directory.log(), said_before);
    const Failure& failure = error.failure();
    if (takes_over) throw Error({failure.tried, failure.on, failure.why, starting.state() + said});
    starting.undo(goes_on);
    throw Error({failure.tried, failure.on, failure.why, said});
  }
}

}  // namespace farside::node
