#include "bench/far/memory_cgroup.h"

#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::bench {

namespace {

struct Hierarchy {
  std::filesystem::path root;
  bool is_version_2;
};

bool lists_memory(const std::filesystem::path& file) {
  std::ifstream words(file);
  for (std::string word; words >> word;) {
    if (word == "memory") return true;
  }
  return false;
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  if (!out.flush()) throw errno_error("write " + text + " into", file, "be root, where control groups are writable");
}

Hierarchy find_hierarchy() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device;
    std::string place;
    std::string type;
    std::string options;
    words >> device >> place >> type >> options;
    if (type == "cgroup" && ("," + options + ",").find(",memory,") != std::string::npos) return {place, false};
    if (type == "cgroup2" && lists_memory(std::filesystem::path(place) / "cgroup.controllers")) return {place, true};
  }
  throw Error({"limit a program's memory by", "a control group", "no hierarchy has the memory controller",
               "mount one at /sys/fs/cgroup"});
}

}  // namespace

MemoryCgroup::MemoryCgroup(std::uint64_t bytes) {
  const auto [root, is_version_2] = find_hierarchy();
  if (is_version_2) write(root / "cgroup.subtree_control", "+memory");
  const std::filesystem::path path = root / fmt::format("farside-bench-{}-{}", ::getpid(), bytes);
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (error) throw Error({"make the control group", path, error.message(), "be root"});
  path_ = path;
  events_ = path / (is_version_2 ? "memory.events" : "memory.oom_control");
  try {
    write(path / (is_version_2 ? "memory.max" : "memory.limit_in_bytes"), std::to_string(bytes));
  } catch (...) {
    ::rmdir(path.c_str());
    throw;
  }
}

// The program that was in it has ended: it was started later.
MemoryCgroup::~MemoryCgroup() { ::rmdir(path_.c_str()); }

bool MemoryCgroup::has_killed() const {
  std::ifstream events(events_);
  std::string name;
  for (std::uint64_t count = 0; events >> name >> count;) {
    if (name == "oom_kill" && count > 0) return true;
  }
  return false;
}

Contender::Program MemoryCgroup::run(Contender::Program program) const {
  std::vector<std::string> command{"sh", "-c", "echo $$ >\"$0\" && exec \"$@\"", path_ / "cgroup.procs"};
  command.insert(command.end(), program.command.begin(), program.command.end());
  program.command = std::move(command);
  return program;
}

}  // namespace farside::bench
