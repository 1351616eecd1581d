// Table 4: Himeno with 360 MB of its 591 here, in every way that this machine has. scripts/bench-vm measures those that
// take a block device on far memory.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "farside/base/error.h"

#include "bench/far/places.h"
#include "bench/far/programs.h"

namespace farside::bench {

namespace {

constexpr unsigned kHere = 360;  // MB
constexpr unsigned kMaxRepetitions = 2;
constexpr double kPapersBestShare = 0.2;  // of the speed in memory: a file map with the updated arrays locked

constexpr std::size_t kAlwaysThere = 3;  // of the ways, the first so many

struct Way {
  std::string name;
  std::function<KernelRun()> run;
  std::optional<double> wanted = {};  ///< speedup of the pager over it
  std::vector<KernelRun> runs = {};
};

double megaflops(const KernelRun& run) { return run.operations / run.seconds / 1e6; }

Series series(const Way& way, const std::function<double(const KernelRun&)>& figure) {
  Series series{way.name, {}, way.wanted};
  std::ranges::transform(way.runs, std::back_inserter(series.repetitions), figure);
  return series;
}

/// Below `farside far`, which writes a profile; that says what came and went. In the whole run: also while the arrays
/// were filled.
KernelRun by_command(const Places& places, const ScaledKernel& himeno, const std::string& profile,
                     std::vector<std::string> options) {
  constexpr double kMegabytesOfPage = 4096 / 1e6;
  options.insert(options.end(), {"--profile", places.folder() / profile});
  KernelRun run = places.by_command(himeno, kHere, options);
  std::ifstream file(places.folder() / profile);
  const auto written = nlohmann::json::parse(file);
  for (const nlohmann::json& allocation : written.at("allocations")) {
    run.megabytes_in += allocation.at("pages_fetched").get<double>() * kMegabytesOfPage;
    run.megabytes_out += allocation.at("pages_stored").get<double>() * kMegabytesOfPage;
  }
  return run;
}

}  // namespace

void measure_himeno(const Options& options, Report& report) {
  const Places places(options);
  const ScaledKernel himeno("himeno", options);
  const auto swap = [&](const std::vector<std::string>& more) {
    return [&, more] { return places.by_swap(himeno, kHere, 8 * himeno.bytes(), more); };
  };
  const auto map = [&](const std::vector<std::string>& more) {
    return [&, more] { return places.by_file_map(himeno, kHere, more); };
  };
  std::vector<Way> ways{{"pager", [&] { return places.by_pager(himeno, kHere); }},
                        {"pager, hints", [&] { return places.by_pager(himeno, kHere, {"--hints"}); }},
                        {"in memory", [&] { return places.in_memory(himeno); }, kPapersBestShare}};
  if (!options.quick) {
    ways.insert(ways.end(), {{"farside far", [&] { return by_command(places, himeno, "first", {}); }},
                             {"farside far, with its profile",
                              [&] {
                                return by_command(places, himeno, "second", {"--hints", places.folder() / "first"});
                              }},
                             {"swap to disk", swap({})},
                             {"swap to disk, locked", swap({"--lock"})},
                             {"file map on disk", map({})},
                             {"file map on disk, locked", map({"--lock"})}});
  }
  // A way that may not be gone here is left out; ours and memory must work.
  for (unsigned repetition = 0; repetition < std::min(options.repetitions, kMaxRepetitions); ++repetition) {
    for (std::size_t i = 0; i < ways.size();) {
      show_progress("himeno, " + ways[i].name);
      try {
        ways[i].runs.push_back(ways[i].run());
        ++i;
      } catch (const Error& error) {
        if (i < kAlwaysThere) throw;
        report.not_measured("himeno, " + ways[i].name, error.what());
        ways.erase(ways.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
  report.continue_table("Himeno, 360 MB here");
  std::vector<Series> speeds;
  speeds.reserve(ways.size());
  for (const Way& way : ways) speeds.push_back(series(way, megaflops));
  report.add(compare("himeno", "MFLOPS", Better::higher, speeds.front(), {speeds.begin() + 1, speeds.end()}));

  const double rounds = kernel_kind("himeno").size.rounds;
  for (const Way& way : ways) {  // no ratios: any of them may be nothing
    const auto add = [&](const char* what, double KernelRun::*figure) {
      const auto a_round = [&](const KernelRun& run) { return run.*figure / rounds; };
      report.add(compare("himeno, " + way.name + what, "MB", Better::lower, series(way, a_round), {}));
    };
    add(": in a round", &KernelRun::megabytes_in);
    add(": out a round", &KernelRun::megabytes_out);
  }
}

}  // namespace farside::bench
