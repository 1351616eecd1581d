#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "farside/base/units.h"

#include "bench/comm/tables.h"

namespace farside::bench {
namespace {

constexpr std::array<std::uint64_t, 9> kSizes{8, 64, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
constexpr std::uint64_t kBulkBytes = 4096;      // from here on bandwidth says something
constexpr std::uint64_t kMaxQuickBytes = 4096;  // bytes, in a quick run
constexpr double kSignalOverCopy = 1 / 1.2;     // a copy with a signal is to take at most 1.2 times a plain one
constexpr double kPutOverFloor = 1 / 1.15;      // a put is to take at most 1.15 times a WRITE and flush of the fabric

/// The size, of those and between, at which half of the greatest bandwidth is reached.
double half_bandwidth_bytes(std::span<const std::uint64_t> sizes, std::span<const double> times_ns) {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < times_ns.size(); ++i) speeds.push_back(static_cast<double>(sizes[i]) / times_ns[i]);
  const double half = *std::ranges::max_element(speeds) / 2;
  const auto reached = static_cast<std::size_t>(
      std::ranges::find_if(speeds, [half](double speed) { return speed >= half; }) - speeds.begin());
  if (reached == 0) return static_cast<double>(sizes[0]);
  const double share = (half - speeds[reached - 1]) / (speeds[reached] - speeds[reached - 1]);
  return std::exp2(std::lerp(std::log2(sizes[reached - 1]), std::log2(sizes[reached]), share));
}

class CopyTable {
 public:
  CopyTable(const Jobs& jobs, const Options& options, Report& report)
      : jobs_(jobs), report_(report), sizes_(kSizes.begin(), kSizes.end()) {
    if (options.quick) std::erase_if(sizes_, [](std::uint64_t bytes) { return bytes > kMaxQuickBytes; });
  }

  /// Over all sizes.
  void add(const std::string& operation) {
    std::vector<TimingRace> races;
    for (const std::uint64_t bytes : sizes_) {
      races.push_back(jobs_.race(operation, bytes));
      const std::string name = fmt::format("{} {} {}", jobs_.fabric(), operation, format_bytes(bytes));
      report_.add(races.back().p50(name));
      if (bytes >= kBulkBytes) report_.add(races.back().bandwidth(name, bytes));
    }
    report_.add(
        TimingRace::over_sizes(races, fmt::format("{} {} N1/2", jobs_.fabric(), operation), "B", Better::lower,
                               [this](std::span<const double> times) { return half_bandwidth_bytes(sizes_, times); }));
  }

  /// Beside `baseline`, at one size.
  void add_beside(const std::string& operation, const std::string& baseline, std::uint64_t bytes, double wanted) {
    const TimingRace race = jobs_.race(
        {{.who = Who::farside, .operation = operation, .amount = bytes},
         {.who = Who::farside, .operation = baseline, .amount = bytes, .name = "plain " + baseline, .wanted = wanted}});
    report_.add(race.p50(fmt::format("{} {} {} beside {}", jobs_.fabric(), operation, format_bytes(bytes), baseline)));
  }

  /// A put beside its floor.
  void add_beside_floor() {
    for (const std::uint64_t bytes : sizes_) add_beside("put", "write+flush", bytes, kPutOverFloor);
  }

 private:
  const Jobs& jobs_;
  Report& report_;
  std::vector<std::uint64_t> sizes_;
};

}  // namespace

void measure_copies(const Jobs& jobs, const Options& options, Report& report) {
  report.continue_table(jobs.fabric() + ": copies, latency and bandwidth (figure 5)");
  CopyTable table(jobs, options, report);
  for (const char* operation : {"put", "put+signal", "put+count", "get", "issue"}) table.add(operation);
  for (const char* operation : {"put+signal", "put+count"}) {
    table.add_beside(operation, "put", kSizes[0], kSignalOverCopy);
  }
  table.add_beside_floor();
  report.continue_table(jobs.fabric() + ": atomics");
  for (const char* operation : {"fetch_add", "fetch_add_double"}) {
    report.add(jobs.race(operation).p50(fmt::format("{} {}", jobs.fabric(), operation)));
  }
}

}  // namespace farside::bench
