#include "node/pool/node_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "base/file_lock.h"
#include "node/pool/process_watch.h"
#include "node/time_limits.h"
#include "team/launcher.h"

namespace farside::node {

namespace {

constexpr const char* kTried = "look for the process of a node in";

std::optional<FileLock> try_lock(const std::filesystem::path& file, FileLock::Kind kind, int flags) {
  Fd opened(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (!opened) throw errno_error(kTried, file);
  return FileLock::try_lock(std::move(opened), kind, kTried, file);
}

// 0: none has been written yet.
pid_t read_pid(const std::filesystem::path& file) {
  const Fd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::array<char, team::kPidBytes> text{};
  const ssize_t bytes = opened ? ::pread(opened.get(), text.data(), text.size(), 0) : -1;
  pid_t pid = 0;
  if (bytes > 0) std::from_chars(text.data(), text.data() + bytes, pid);
  return std::max(pid, 0);
}

bool is_held(const std::filesystem::path& file) {
  return std::filesystem::exists(file) && !try_lock(file, FileLock::Kind::shared, 0);
}

}  // namespace

// In place, so that a node is started also while the disk is full.
Fd claim_node(const std::filesystem::path& file) {
  const auto deadline = std::chrono::steady_clock::now() + node::time_limits::kLock;
  for (;; std::this_thread::sleep_for(node::time_limits::kLook)) {
    if (auto lock = try_lock(file, FileLock::Kind::exclusive, O_CREAT)) {  // else a command looks, perhaps
      Fd claimed = lock->take_file();
      const std::array<char, team::kPidBytes> none{};
      if (::pwrite(claimed.get(), none.data(), none.size(), 0) != static_cast<ssize_t>(none.size()))
        throw errno_error("write", file, "make room in the runtime directory");
      return claimed;
    }
    if (std::chrono::steady_clock::now() > deadline)
      throw Error({"start a node with", file, "a process is that node", "end the pool with farside down"});
  }
}

// The holder is the same in all of a round that ends with the lock still held: so the pid was its own when the pidfd
// was opened.
std::optional<RunningNode> find_node(const std::filesystem::path& file, team::Rank rank) {
  const auto deadline = std::chrono::steady_clock::now() + node::time_limits::kLock;
  for (; is_held(file); std::this_thread::sleep_for(node::time_limits::kLook)) {
    const pid_t pid = read_pid(file);
    Fd pidfd(pid == 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pid != 0 && !pidfd && errno != ESRCH && errno != EINVAL)
      throw errno_error("watch node", std::to_string(rank), "raise ulimit -n");
    if (pidfd && is_held(file) && read_pid(file) == pid) return RunningNode{rank, pid, std::move(pidfd)};
    if (std::chrono::steady_clock::now() > deadline)
      throw Error({kTried, file, "a process holds it and has not said which", "see lsof, or fuser -v, with that file"});
  }
  return std::nullopt;
}

bool end_nodes(std::vector<RunningNode> nodes, std::chrono::milliseconds timeout) {
  std::vector<ProcessWatch> left;
  left.reserve(nodes.size());
  for (RunningNode& node : nodes) left.emplace_back(std::move(node.pidfd));
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  if (timeout != timeout.zero()) {
    for (const ProcessWatch& node : left) node.signal(SIGTERM);
  }
  std::erase_if(left, [deadline](const ProcessWatch& node) {
    const auto now = std::chrono::steady_clock::now();
    return node.wait(std::chrono::ceil<std::chrono::milliseconds>(std::max(deadline - now, {})));
  });
  for (const ProcessWatch& node : left) node.signal(SIGKILL);
  for (const ProcessWatch& node : left) {
    if (node.wait(node::time_limits::kKill)) continue;
    throw Error({"end", "the pool", "a node does not go away", "is it waiting for a file system?"});
  }
  return left.empty();
}

}  // namespace farside::node
