// The text that Prometheus reads; tests/support/prometheus.py checks that of whole programs.
#include "cli/metrics_page.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farside::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

metrics::Sample counter(std::string_view name, std::string_view label, std::uint64_t count) {
  return {.description = {name, "Tests.", label}, .kind = metrics::Kind::counter, .count = count};
}

metrics::Sample histogram(std::string_view label, const std::vector<std::uint64_t>& durations_ns) {
  metrics::Sample sample{.description = {"test_seconds", "Tests.", label}, .kind = metrics::Kind::histogram};
  for (const std::uint64_t ns : durations_ns) {
    ++sample.latencies.buckets.at(metrics::bucket_of(ns));
    sample.latencies.sum_ns += ns;
  }
  return sample;
}

std::string page_of(const std::vector<metrics::Sample>& samples) {
  MetricsPage page;
  page.add_all(samples);
  return page.take();
}

// Each name is described once, above all its values.
TEST(MetricsPage, DescribesANameOnce) {
  EXPECT_EQ(
      page_of({counter("a_total", "kind=\"1\"", 7), counter("a_total", "kind=\"2\"", 8), counter("b_total", "", 9)}),
      "# HELP a_total Tests.\n# TYPE a_total counter\n"
      "a_total{kind=\"1\"} 7\na_total{kind=\"2\"} 8\n"
      "# HELP b_total Tests.\n# TYPE b_total counter\nb_total 9\n");
}

TEST(MetricsPage, HasAHistogramsBucketsCumulated) {
  const std::string page = page_of({histogram("", {1000, 1024, 1025, 3'000'000, 500'000'000'000})});
  EXPECT_THAT(page, StartsWith("# HELP test_seconds Tests.\n# TYPE test_seconds histogram\n"
                               "test_seconds_bucket{le=\"1.024e-06\"} 2\n"
                               "test_seconds_bucket{le=\"2.048e-06\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("test_seconds_bucket{le=\"0.002097152\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("test_seconds_bucket{le=\"0.004194304\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("test_seconds_bucket{le=\"137.438953472\"} 4\n"
                              "test_seconds_bucket{le=\"+Inf\"} 5\n"
                              "test_seconds_sum 500.003003049\n"
                              "test_seconds_count 5\n"));
}

TEST(MetricsPage, HasAHistogramsLabelBeforeTheBucket) {
  const std::string page = page_of({histogram("from=\"file\"", {1000}), histogram("from=\"memory\"", {})});
  for (const char* line :
       {"test_seconds_bucket{from=\"file\",le=\"1.024e-06\"} 1\n", "test_seconds_count{from=\"file\"} 1\n",
        "test_seconds_sum{from=\"file\"} 1e-06\n", "test_seconds_count{from=\"memory\"} 0\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

// What is there without the registry is not described by what follows it.
TEST(MetricsPage, GoesOnAfterOtherMetrics) {
  MetricsPage page;
  page.begin("up", MetricsPage::Kind::gauge, "Tests.");
  page.add("", 1);
  page.add_all(std::vector{counter("a_total", "", 2)});
  EXPECT_THAT(page.take(), HasSubstr("up 1\n# HELP a_total"));
}

TEST(MetricsPage, OfAProcessHasWhatItRegistered) {
  metrics::Counter counter({"test_total", "Tests."});
  counter.add(3);
  EXPECT_THAT(metrics_of_this_process(), HasSubstr("test_total 3\n"));
}

}  // namespace
}  // namespace farside::cli
