// Figure 7, and what the kernel's swap carries for Himeno when memory shrinks from 230 to 100 MB.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "farside/base/error.h"

#include "bench/far/places.h"
#include "bench/far/programs.h"
#include "plot/plot.h"

namespace farside::bench {

namespace {

constexpr unsigned kSamples = 50;  // of a run, about

struct Shown {
  const char* kernel;
  unsigned megabytes;
};
constexpr std::array<Shown, 3> kShown{{{"qsort", 230}, {"himeno", 230}, {"himeno", 100}}};

/// Megabytes a second between the samples.
std::vector<Curve> rates(const KernelRun& run) {
  std::vector<Curve> curves{{"in", {}}, {"out", {}}};
  KernelRun::Sample before{};
  for (const KernelRun::Sample& now : run.samples) {
    const double seconds = now.seconds - before.seconds;
    curves[0].points.emplace_back(now.seconds, (now.megabytes_in - before.megabytes_in) / seconds);
    curves[1].points.emplace_back(now.seconds, (now.megabytes_out - before.megabytes_out) / seconds);
    before = now;
  }
  return curves;
}

void draw_over_time(const Options& options, const Places& places) {
  for (const auto& [name, here] : kShown) {
    const ScaledKernel kernel(name, options);
    show_progress(fmt::format("{} over time", name));
    const double seconds = places.by_pager(kernel, here).seconds;
    const auto interval_ms = static_cast<unsigned>(std::max(1.0, seconds * 1000 / kSamples));
    const KernelRun run = places.by_pager(kernel, here, {"--sample", std::to_string(interval_ms)});
    draw({.title = fmt::format("{}, {} MB here: {:.0f} MB in, {:.0f} MB out", name, here, run.megabytes_in,
                               run.megabytes_out),
          .x = {.label = "seconds", .logarithmic = false},
          .y = {.label = "MB/s", .logarithmic = false},
          .curves = rates(run)},
         options.plots / fmt::format("far-traffic-{}-{}.svg", name, here));
  }
}

// Linux gives a page's place in the swap up as soon as it is read when more than half of all swap is taken; then also a
// page that was only read must be written again when it leaves. The paper's swap had 800 MB, Himeno 591.
void compare_swap_sizes(const Options& options, Report& report, const Places& places) {
  report.continue_table("Himeno by the kernel's swap of two sizes");
  const ScaledKernel himeno("himeno", options);
  for (const unsigned here : {230U, 100U}) {
    const KernelRun small = places.by_swap(himeno, here, 800'000'000 / himeno.divisor());
    const KernelRun large = places.by_swap(himeno, here, 8'000'000'000 / himeno.divisor());
    const auto add = [&](const char* what, double KernelRun::*figure) {
      report.add(compare(fmt::format("himeno, {} MB here: {}", here, what), "MB", Better::lower,
                         {"swap of 800 MB", {small.*figure}}, {{"swap of 8000 MB", {large.*figure}}}));
    };
    add("in", &KernelRun::megabytes_in);
    add("out", &KernelRun::megabytes_out);
  }
}

}  // namespace

void measure_traffic(const Options& options, Report& report) {
  if (options.quick)
    return report.not_measured("the kernel's swap", "a quick run, which is a test, leaves the machine's alone");
  const Places places(options);
  if (!options.plots.empty()) draw_over_time(options, places);
  try {
    compare_swap_sizes(options, report, places);
  } catch (const Error& error) {
    report.not_measured("Himeno by the kernel's swap of two sizes", error.what());
  }
}

}  // namespace farside::bench
