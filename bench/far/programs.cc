#include "bench/far/programs.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "farside/base/error.h"

#include "bench/far/places.h"
#include "plot/plot.h"

namespace farside::bench {

namespace {

constexpr std::array kKernels{"qsort", "himeno", "bt", "lu", "lu-hp", "mg", "sp", "ua"};
constexpr std::array<unsigned, 5> kMegabytes{900, 490, 360, 230, 100};
constexpr std::array<unsigned, 1> kMegabytesOfQuickRun{360};
constexpr unsigned kAllFits = 900;
constexpr unsigned kMaxRepetitions = 2;

// What the paper's qsort lost (its table 3) is the most that ours may lose.
std::optional<double> wanted_beside_memory(std::string_view kernel, unsigned megabytes) {
  if (kernel != "qsort") return {};
  if (megabytes == 360) return 1 / 1.16;
  if (megabytes == 100) return 1 / 1.82;
  return {};
}

double wanted_beside_swap(std::string_view kernel) { return kernel == "lu-hp" || kernel == "ua" ? 3 : 1; }

/// The runs of one place, or why there are none.
struct Runs {
  std::vector<KernelRun> runs = {};
  std::string why_not = {};
};

std::vector<double> figures(const Runs& runs, double KernelRun::*figure) {
  std::vector<double> values;
  std::ranges::transform(runs.runs, std::back_inserter(values), [&](const KernelRun& run) { return run.*figure; });
  return values;
}

class Programs {
 public:
  Programs(const Options& options, Report& report)
      : options_(options),
        report_(report),
        repetitions_(options.full ? 1 : std::min(options.repetitions, kMaxRepetitions)),
        places_(options) {}

  void measure_kernels();
  void measure_lines();

 private:
  struct OfKernel {
    Runs in_memory;
    std::map<unsigned, Runs> by_pager;  ///< by megabytes here
    std::map<unsigned, Runs> by_command;
    std::map<unsigned, Runs> by_swap;
  };

  void run(Runs& runs, const std::function<KernelRun()>& once);
  [[nodiscard]] OfKernel run_all(const ScaledKernel& kernel, std::span<const unsigned> megabytes);
  void report_one(const ScaledKernel& kernel, unsigned megabytes, const OfKernel& found);
  void report_traffic(const std::string& name, const Runs& pager, const Runs& swap);
  void draw_curves(const std::string& name, const std::string& axis, std::vector<Curve> curves) const;

  const Options& options_;
  Report& report_;
  const unsigned repetitions_;
  const Places places_;
  std::uint64_t fingerprint_ = 0;  ///< what the kernel computed first
};

// What took too long, or may not be done, is not tried again.
void Programs::run(Runs& runs, const std::function<KernelRun()>& once) {
  if (!runs.why_not.empty()) return;
  try {
    runs.runs.push_back(once());
  } catch (const Error& error) {
    runs = {.runs = {}, .why_not = error.what()};
    return;
  }
  const std::uint64_t checked = runs.runs.back().checked;
  if (fingerprint_ == 0) fingerprint_ = checked;
  if (checked != fingerprint_) throw std::runtime_error("it did not compute the same as in memory");
}

Programs::OfKernel Programs::run_all(const ScaledKernel& kernel, std::span<const unsigned> megabytes) {
  OfKernel found;
  fingerprint_ = 0;
  for (unsigned repetition = 0; repetition < repetitions_; ++repetition) {
    show_progress(fmt::format("{}, {} of {}", kernel.name(), repetition + 1, repetitions_));
    run(found.in_memory, [&] { return places_.in_memory(kernel); });
    std::string too_much;  // with less memory it would take longer still
    for (const unsigned here : megabytes) {
      run(found.by_pager[here], [&] { return places_.by_pager(kernel, here); });
      if (here == kAllFits || options_.quick) continue;
      run(found.by_command[here], [&] { return places_.by_command(kernel, here); });
      Runs& swap = found.by_swap[here];
      if (!too_much.empty()) swap = {.runs = {}, .why_not = too_much};
      run(swap, [&] { return places_.by_swap(kernel, here, 8 * kernel.bytes()); });
      too_much = swap.why_not;
    }
  }
  return found;
}

void Programs::report_one(const ScaledKernel& kernel, unsigned megabytes, const OfKernel& found) {
  const std::string name =
      fmt::format("{}, {} MB here ({:.2f}x)", kernel.name(), megabytes, kernel.expansion(megabytes));
  const Runs& pager = found.by_pager.at(megabytes);
  if (pager.runs.empty()) return report_.not_measured(name, pager.why_not);
  std::vector<Series> baselines{
      {"in memory", figures(found.in_memory, &KernelRun::seconds), wanted_beside_memory(kernel.name(), megabytes)}};
  const auto add = [&](const char* place, const std::map<unsigned, Runs>& all, std::optional<double> wanted) {
    const auto runs = all.find(megabytes);
    if (runs == all.end()) return Runs{};
    if (runs->second.runs.empty()) {
      report_.not_measured(name + ", " + place, runs->second.why_not);
    } else {
      baselines.push_back({place, figures(runs->second, &KernelRun::seconds), wanted});
    }
    return runs->second;
  };
  add("farside far", found.by_command, {});
  const Runs swap = add("swap to disk", found.by_swap, wanted_beside_swap(kernel.name()));
  report_.continue_table("Programs, seconds");
  report_.add(compare(name, "s", Better::lower, {"pager", figures(pager, &KernelRun::seconds)}, baselines));
  report_traffic(name, pager, swap);
}

void Programs::report_traffic(const std::string& name, const Runs& pager, const Runs& swap) {
  report_.continue_table("Programs, what comes and goes");
  const auto add = [&](const char* what, double KernelRun::*figure) {  // no ratios: any of them may be nothing
    report_.add(compare(name + what + ", pager", "MB", Better::lower, {"", figures(pager, figure)}, {}));
    if (swap.runs.empty()) return;
    report_.add(compare(name + what + ", swap to disk", "MB", Better::lower, {"", figures(swap, figure)}, {}));
  };
  add(": in", &KernelRun::megabytes_in);
  add(": out", &KernelRun::megabytes_out);
}

void Programs::measure_kernels() {
  const auto sizes = options_.quick ? std::span<const unsigned>(kMegabytesOfQuickRun) : std::span(kMegabytes);
  std::vector<Curve> by_size;
  std::vector<Curve> by_expansion;
  for (const char* name : kKernels) {
    const ScaledKernel kernel(name, options_);
    const OfKernel found = run_all(kernel, sizes);
    if (found.in_memory.runs.empty()) {
      report_.not_measured(name, found.in_memory.why_not);
      continue;
    }
    by_size.push_back({name, {}});
    by_expansion.push_back({name, {}});
    const double in_memory = summarize(figures(found.in_memory, &KernelRun::seconds)).median;
    for (const unsigned here : sizes) {
      report_one(kernel, here, found);
      if (found.by_pager.at(here).runs.empty()) continue;
      const double slower = summarize(figures(found.by_pager.at(here), &KernelRun::seconds)).median / in_memory;
      by_size.back().points.emplace_back(here, slower);
      by_expansion.back().points.emplace_back(kernel.expansion(here), slower);
    }
  }
  draw_curves("far-programs-by-size", "memory here (MB)", std::move(by_size));
  draw_curves("far-programs-by-expansion", "memory used / memory here", std::move(by_expansion));
}

void Programs::draw_curves(const std::string& name, const std::string& axis, std::vector<Curve> curves) const {
  if (options_.plots.empty()) return;
  draw({.title = "Programs in a far heap",
        .x = {.label = axis, .logarithmic = false},
        .y = {"time / time in memory"},
        .curves = std::move(curves)},
       options_.plots / (name + ".svg"));
}

// Figure 4: bytes of the range a second, of which one in 16 is touched.
void Programs::measure_lines() {
  for (const char* name : {"writemem", "reread"}) {
    const ScaledKernel kernel(name, options_);
    for (const unsigned here : {kAllFits, 100U}) {
      const OfKernel found = run_all(kernel, std::array{here});
      const auto speeds = [](const Runs& runs) {
        std::vector<double> values;
        for (const KernelRun& run : runs.runs) values.push_back(run.operations / 1e6 / run.seconds);
        return values;
      };
      const std::string row = fmt::format("{}, {} MB here", name, here);
      const Runs& pager = found.by_pager.at(here);
      if (pager.runs.empty() || found.in_memory.runs.empty()) {
        report_.not_measured(row, pager.why_not + found.in_memory.why_not);
        continue;
      }
      std::vector<Series> baselines{{"in memory", speeds(found.in_memory)}};
      if (const auto swap = found.by_swap.find(here); swap != found.by_swap.end() && !swap->second.runs.empty()) {
        baselines.push_back({"swap to disk", speeds(swap->second), 1});
      }
      report_.continue_table("4 bytes of each 64");
      report_.add(compare(row, "MB/s", Better::higher, {"pager", speeds(pager)}, baselines));
    }
  }
}

}  // namespace

void measure_programs(const Options& options, Report& report) {
  Programs programs(options, report);
  programs.measure_lines();
  programs.measure_kernels();
}

}  // namespace farside::bench
