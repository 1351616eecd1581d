#include "farside/base/memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "farside/base/error.h"

namespace farside {

namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// The number behind `name` in a file of lines "name number ..."; 0 when there is none.
std::uint64_t read_entry(const std::filesystem::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string found;
  for (std::uint64_t number = 0; file >> found >> number;
       file.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    if (found == name) return number;
  }
  return 0;
}

// "max" and a file that is not there read as no limit.
std::uint64_t read_limit(const std::filesystem::path& path) {
  std::uint64_t bytes = 0;
  return std::ifstream(path) >> bytes ? bytes : kUnlimited;
}

// The memory that a control group may still take. Pages of files count as its use, but go when the room is needed.
std::uint64_t left_in_group(const std::filesystem::path& group) {
  const std::uint64_t most = read_limit(group / "memory.max");
  if (most == kUnlimited) return kUnlimited;
  const std::uint64_t of_files =
      read_entry(group / "memory.stat", "inactive_file") + read_entry(group / "memory.stat", "active_file");
  const std::uint64_t used = read_limit(group / "memory.current");
  return most - std::min(most, used - std::min(used, of_files));
}

// The tightest of the limits of this process's group and all groups above it (cgroup v2).
std::uint64_t group_available_bytes() {
  std::ifstream file("/proc/self/cgroup");
  std::filesystem::path group;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) group = line.substr(4);
  }
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::uint64_t available = left_in_group(root);  // a container's own group looks like the root
  for (; !group.empty(); group = group.parent_path()) available = std::min(available, left_in_group(root / group));
  return available;
}

}  // namespace

std::uint64_t available_memory_bytes() {
  const std::uint64_t machine = read_entry("/proc/meminfo", "MemAvailable:") * 1024;
  if (machine == 0) throw Error({"find MemAvailable in", "/proc/meminfo", "it is not there", "mount /proc"});
  return std::min(machine, group_available_bytes());
}

}  // namespace farside
