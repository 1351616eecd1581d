// farside bench base: the cost of counting, beside a plain increment and an atomic one.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/metrics.h"
#include "bench/harness/program.h"
#include "bench/harness/timing.h"

namespace farside::bench {
namespace {

constexpr std::array<unsigned, 2> kThreads{1, 2};

/// Keeps the compiler from merging increments: each one loads and stores.
inline void store_now() { asm volatile("" ::: "memory"); }

struct Way {
  std::string name;
  std::function<void(std::uint64_t)> run;  ///< counts so many times
};

/// Returns what one increment takes, in nanoseconds, when so many threads count at once: the mean of their medians.
double increment_ns(const Way& way, unsigned threads, Nanoseconds budget) {
  std::vector<double> medians(threads);
  const auto time_in = [&](unsigned thread) { medians[thread] = time_operations(way.run, budget).p50_ns; };
  std::vector<std::thread> others;
  for (unsigned thread = 1; thread < threads; ++thread) others.emplace_back(time_in, thread);
  time_in(0);
  for (std::thread& other : others) other.join();
  double sum = 0;
  for (const double median : medians) sum += median;
  return sum / threads;
}

void race(const std::string& name, const std::vector<Way>& ways, unsigned threads, const Options& options,
          Report& report) {
  std::vector<Series> series;
  for (const Way& way : ways) series.push_back({way.name, {}});
  for (unsigned repetition = 0; repetition < options.repetitions; ++repetition) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::size_t turn = (i + repetition) % ways.size();
      series[turn].repetitions.push_back(increment_ns(ways[turn], threads, options.budget()));
    }
  }
  const Series ours = series.front();
  series.erase(series.begin());
  report.add(compare(name, "ns", Better::lower, ours, series));
}

void measure(const Options& options, Report& report) {
  metrics::Counter counter({"bench_total", "Increments."});
  metrics::Histogram histogram({"bench_seconds", "Durations."});
  std::atomic<std::uint64_t> shared = 0;
  const auto times = [](std::uint64_t count, const auto& increment) {
    for (std::uint64_t i = 0; i < count; ++i) {
      increment(i);
      store_now();
    }
  };
  const Way plain{"++ of a thread's own word", [&](std::uint64_t count) {
                    std::uint64_t own = 0;
                    asm volatile("" ::"r"(&own) : "memory");  // it is in memory, as a counter that others read
                    times(count, [&](std::uint64_t) { ++own; });
                  }};
  const Way locked{"lock xadd of one word", [&](std::uint64_t count) {
                     times(count, [&](std::uint64_t) { shared.fetch_add(1, std::memory_order_relaxed); });
                   }};
  const Way add{"farside", [&](std::uint64_t count) { times(count, [&](std::uint64_t) { counter.add(); }); }};
  const Way observe{"farside", [&](std::uint64_t count) {
                      times(count, [&](std::uint64_t i) { histogram.observe(std::chrono::nanoseconds(i << 8U)); });
                    }};
  for (const unsigned threads : kThreads) {
    const std::string at_once = fmt::format("{} {}", threads, threads == 1 ? "thread" : "threads");
    race("counter, " + at_once, {add, plain, locked}, threads, options, report);
    race("histogram, " + at_once, {observe, plain, locked}, threads, options, report);
  }
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::run_program(argc, argv, "base", "counters and histograms beside plain and atomic increments",
                                     farside::bench::measure);
}
