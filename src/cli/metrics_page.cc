#include "cli/metrics_page.h"

#include <bit>

#include <fmt/format.h>

namespace farside::cli {

namespace {

constexpr double kNanosecondsInSecond = 1e9;

}  // namespace

void MetricsPage::begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsPage::begin(std::string_view name, Kind kind, std::string_view help) {
  begin(name, kind == Kind::gauge ? "gauge" : "counter", help);
}

void MetricsPage::add(std::string_view labels, std::uint64_t value) {
  text_ += labels.empty() ? fmt::format("{} {}\n", name_, value) : fmt::format("{}{{{}}} {}\n", name_, labels, value);
}

void MetricsPage::add_all(std::span<const metrics::Sample> samples) {
  for (const metrics::Sample& sample : samples) {
    const bool is_counter = sample.kind == metrics::Kind::counter;
    if (sample.description.name != name_) {
      begin(sample.description.name, is_counter ? "counter" : "histogram", sample.description.help);
    }
    if (is_counter) {
      add(sample.description.label, sample.count);
    } else {
      add(sample.description.label, sample.latencies);
    }
  }
}

void MetricsPage::add(std::string_view labels, const metrics::LatencyCounts& latencies) {
  const std::string first = labels.empty() ? "" : fmt::format("{},", labels);
  const std::string braced = labels.empty() ? "" : fmt::format("{{{}}}", labels);
  std::uint64_t count = 0;
  for (std::size_t bucket = 0; bucket < metrics::kBuckets; ++bucket) {
    count += latencies.buckets.at(bucket);
    const std::uint64_t bound = metrics::upper_bound_of(bucket);
    if (!std::has_single_bit(bound)) continue;
    text_ += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name_, first,
                         static_cast<double>(bound) / kNanosecondsInSecond, count);
  }
  text_ += fmt::format("{}_bucket{{{}le=\"+Inf\"}} {}\n", name_, first, count);
  text_ += fmt::format("{}_sum{} {}\n", name_, braced, static_cast<double>(latencies.sum_ns) / kNanosecondsInSecond);
  text_ += fmt::format("{}_count{} {}\n", name_, braced, count);
}

std::string metrics_of_this_process() {
  MetricsPage page;
  page.add_all(metrics::snapshot());
  return page.take();
}

}  // namespace farside::cli
