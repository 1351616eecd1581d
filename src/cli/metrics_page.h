// metrics_page.h — metrics in Prometheus's text format 0.0.4.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/metrics.h"

namespace farside::cli {

/// Collects a page: each metric once, with a value for each of its labels.
class MetricsPage {
 public:
  enum class Kind : std::uint8_t { gauge, counter };

  void begin(std::string_view name, Kind kind, std::string_view help);
  /// Adds a value of the metric begun last. `labels`: `server="0"`, or nothing.
  void add(std::string_view labels, std::uint64_t value);
  /// Adds whole metrics, sorted by name. A histogram has a bucket for each power of two of nanoseconds.
  void add_all(std::span<const metrics::Sample> samples);
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view name, std::string_view type, std::string_view help);
  void add(std::string_view labels, const metrics::LatencyCounts& latencies);

  std::string name_;
  std::string text_;
};

/// A page of all counters and histograms of this process.
[[nodiscard]] std::string metrics_of_this_process();

}  // namespace farside::cli
