#include "node/memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "farside/base/error.h"

namespace farside {

namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::uint64_t machine_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (std::uint64_t kib = 0; file >> name >> kib; file.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  throw Error({"find MemAvailable in", "/proc/meminfo", "it is not there", "mount /proc"});
}

// "max" and a file that is not there read as no limit.
std::uint64_t read_limit(const std::filesystem::path& path) {
  std::uint64_t bytes = 0;
  return std::ifstream(path) >> bytes ? bytes : kUnlimited;
}

// The tightest of the limits of this process's group and all groups above it (cgroup v2).
std::uint64_t group_available_bytes() {
  std::ifstream file("/proc/self/cgroup");
  std::filesystem::path group;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) group = line.substr(4);
  }
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::uint64_t available = kUnlimited;
  for (; !group.empty(); group = group.parent_path()) {
    const std::uint64_t most = read_limit(root / group / "memory.max");
    if (most == kUnlimited) continue;
    const std::uint64_t used = std::min(most, read_limit(root / group / "memory.current"));
    available = std::min(available, most - used);
  }
  return available;
}

}  // namespace

std::uint64_t available_memory_bytes() { return std::min(machine_available_bytes(), group_available_bytes()); }

}  // namespace farside
