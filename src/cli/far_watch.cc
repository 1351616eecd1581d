#include "cli/far_watch.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "farside/base/log.h"
#include "farside/base/units.h"

#include "base/signals_held.h"

namespace farside::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLook{1};
constexpr std::uint64_t kSmallBytes = std::uint64_t{64} << 20U;  // what programs have beside it in any case
constexpr char kWhy[] = "linked statically, a run time that maps its memory itself (Go, node), or other rights";

// Below this process. Any may end while it is looked at.
std::vector<pid_t> descendants() {
  std::vector<pid_t> all{::getpid()};
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::error_code gone;
    for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", all[i]), gone)) {
      std::ifstream file(thread.path() / "children");
      for (pid_t pid = 0; file >> pid;) all.push_back(pid);
    }
  }
  all.erase(all.begin());
  return all;
}

// Without files and what is shared; 0 when it is gone.
std::uint64_t anonymous_bytes(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    std::uint64_t kib = 0;
    status >> kib;
    return kib << 10U;
  }
  return 0;
}

std::string name_of(pid_t process) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", process)), name);
  return name;
}

}  // namespace

FarWatch::FarWatch(const far::Daemon& daemon, std::uint64_t local_bytes)
    : daemon_(daemon),
      local_bytes_(local_bytes),
      told_bytes_(std::max(local_bytes, kSmallBytes)),
      thread_(start_thread([this] { run(); })) {}

FarWatch::~FarWatch() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void FarWatch::run() {
  MutexLock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this]() REQUIRES(mutex_) { return ends_; })) look();
}

// The programs' anonymous memory includes the pages of far memory that are here: those are subtracted.
void FarWatch::look() {
  std::uint64_t bytes = 0;
  std::uint64_t most = 0;
  pid_t largest = 0;
  for (const pid_t process : descendants()) {
    const std::uint64_t its = anonymous_bytes(process);
    bytes += its;
    if (its <= most) continue;
    most = its;
    largest = process;
  }
  const std::uint64_t outside = bytes - std::min(bytes, daemon_.counts().bytes_here);
  if (outside <= told_bytes_) return;
  told_bytes_ = 2 * outside;
  log::warn(
      fmt::format("{} of the programs' memory is not far, beside the {} of --local; the largest program is {} ({}): {}",
                  format_bytes(outside), format_bytes(local_bytes_), name_of(largest), largest, kWhy));
}

void FarWatch::expect_programs() const {
  if (daemon_.counts().programs == 0) log::warn(fmt::format("nothing that was run had far memory: {}", kWhy));
}

}  // namespace farside::cli
