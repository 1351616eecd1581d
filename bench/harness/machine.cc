#include "bench/harness/machine.h"

#include <chrono>
#include <fstream>

#include <fmt/chrono.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace farside::bench {

namespace {

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

Machine this_machine() {
  utsname names{};
  ::uname(&names);
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {cpu_model(), static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN)), pages * page_bytes, names.release};
}

std::string utc_date() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", now);
}

std::string farside_version() { return FARSIDE_VERSION; }

}  // namespace farside::bench
