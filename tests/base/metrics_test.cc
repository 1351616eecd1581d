// What counters and histograms promise beside other threads.
#include "base/metrics.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farside::metrics {
namespace {

using std::chrono::nanoseconds;

std::optional<Sample> find(std::string_view name, std::string_view label = {}) {
  for (const Sample& sample : snapshot()) {
    if (sample.description.name == name && sample.description.label == label) return sample;
  }
  return std::nullopt;
}

TEST(MetricsRegistry, HasWhatExistsAlone) {
  EXPECT_FALSE(find("test_total"));
  {
    Counter counter({"test_total", "Tests."});
    counter.add(3);
    ASSERT_TRUE(find("test_total"));
    EXPECT_EQ(find("test_total")->count, 3U);
    EXPECT_EQ(find("test_total")->kind, Kind::counter);
    EXPECT_EQ(find("test_total")->description.help, "Tests.");
  }
  EXPECT_FALSE(find("test_total"));
}

// The cells of a removed metric are used again: they must not bring its counts along, of whichever thread.
TEST(MetricsRegistry, BeginsANewMetricAtZero) {
  std::optional<Counter> counter(std::in_place, Description{"test_total", "Tests."});
  std::optional<Histogram> histogram(std::in_place, Description{"test_seconds", "Tests."});
  const auto count = [&] {
    counter->add(5);
    histogram->observe(nanoseconds(5000));
  };
  count();
  std::thread(count).join();
  counter.emplace(Description{"other_total", "Tests."});
  histogram.emplace(Description{"other_seconds", "Tests."});
  EXPECT_EQ(counter->value(), 0U);
  EXPECT_EQ(histogram->counts().count(), 0U);
  EXPECT_EQ(histogram->counts().sum_ns, 0U);
}

TEST(MetricsRegistry, SumsMetricsOfOneNameAndLabel) {
  Counter one({"test_total", "Tests.", "kind=\"a\""});
  Counter two({"test_total", "Tests.", "kind=\"a\""});
  Counter other({"test_total", "Tests.", "kind=\"b\""});
  one.add(1);
  two.add(2);
  other.add(4);
  EXPECT_EQ(find("test_total", "kind=\"a\"")->count, 3U);
  EXPECT_EQ(find("test_total", "kind=\"b\"")->count, 4U);
}

// Prometheus wants the lines of a name together.
TEST(MetricsRegistry, SortsByName) {
  const Counter b({"test_b_total", "Tests."});
  const Counter a2({"test_a_total", "Tests.", "kind=\"2\""});
  const Counter a1({"test_a_total", "Tests.", "kind=\"1\""});
  const auto samples = snapshot();
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].description.label, "kind=\"1\"");
  EXPECT_EQ(samples[1].description.label, "kind=\"2\"");
  EXPECT_EQ(samples[2].description.name, "test_b_total");
}

// More counters than a chunk has cells, and histograms between them: none counts in another's place.
TEST(MetricsRegistry, KeepsMetricsApart) {
  constexpr std::size_t kMany = 2 * kChunkCells + 1;
  std::vector<std::unique_ptr<Counter>> counters;
  std::vector<std::unique_ptr<Histogram>> histograms;
  for (std::size_t i = 0; i < kMany; ++i) {
    counters.push_back(std::make_unique<Counter>(Description{"test_total", "Tests."}));
    if (i % 64 == 0) {
      histograms.push_back(std::make_unique<Histogram>(Description{"test_seconds", "Tests."}));
      histograms.back()->observe(nanoseconds(i));
    }
    counters.back()->add(i);
  }
  for (std::size_t i = 0; i < kMany; ++i) EXPECT_EQ(counters[i]->value(), i);
  for (std::size_t i = 0; i < histograms.size(); ++i) {
    EXPECT_EQ(histograms[i]->counts().sum_ns, 64 * i);
    EXPECT_EQ(histograms[i]->counts().count(), 1U);
  }
}

TEST(MetricsThreads, LoseNothingWhenTheyComeAndGo) {
  constexpr std::uint64_t kThreads = 8;
  constexpr std::uint64_t kLives = 25;
  constexpr std::uint64_t kCounts = 500;
  Counter counter({"test_total", "Tests."});
  Histogram histogram({"test_seconds", "Tests."});
  const auto live = [&] {
    for (std::uint64_t i = 1; i <= kCounts; ++i) {
      counter.add();
      histogram.observe(nanoseconds(1000 * i));
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      live();
      for (std::uint64_t lives = 1; lives < kLives; ++lives) std::thread(live).join();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), kThreads * kLives * kCounts);
  EXPECT_EQ(histogram.counts().count(), kThreads * kLives * kCounts);
  EXPECT_EQ(histogram.counts().sum_ns, kThreads * kLives * 1000 * (kCounts * (kCounts + 1) / 2));
}

// While some threads count and others end, what a reader sees only grows.
TEST(MetricsThreads, NeverDecreaseForAReader) {
  Counter counter({"test_total", "Tests."});
  Histogram histogram({"test_seconds", "Tests."});
  constexpr int kLives = 300;
  std::atomic<bool> stop = false;
  std::atomic<int> lives = 0;
  const auto count = [&](int times) {
    for (int i = 0; i < times; ++i) {
      counter.add();
      histogram.observe(nanoseconds(3000));
    }
  };
  std::thread steady([&] {
    while (!stop) count(100);
  });
  std::thread ending([&] {
    for (; lives < kLives; ++lives) std::thread([&] { count(100); }).join();
  });
  std::uint64_t total = 0;
  std::uint64_t latencies = 0;
  while (lives < kLives) {
    const std::uint64_t now = find("test_total")->count;
    const std::uint64_t latencies_now = find("test_seconds")->latencies.count();
    EXPECT_GE(now, total);
    EXPECT_GE(latencies_now, latencies);
    total = now;
    latencies = latencies_now;
  }
  stop = true;
  steady.join();
  ending.join();
  EXPECT_EQ(histogram.counts().count(), counter.value());
}

// A destructor of a thread's own objects may count after the thread's cells are gone.
TEST(MetricsThreads, CountWhileTheyEnd) {
  struct CountsAtEnd {
    Counter* counter = nullptr;
    ~CountsAtEnd() {
      counter->add();
      counter->add();
    }
  };
  Counter counter({"test_total", "Tests."});
  std::thread([&counter] {
    thread_local CountsAtEnd last;  // made first, so destroyed after the cells
    last.counter = &counter;
    counter.add();
  }).join();
  EXPECT_EQ(counter.value(), 3U);
}

// The child has what all of its parent's threads had counted, and counts on.
TEST(MetricsThreads, AChildBeginsWithItsParentsCounts) {
  Counter counter({"test_total", "Tests."});
  counter.add(1);
  std::thread([&] { counter.add(2); }).join();
  const pid_t child = ::fork();
  if (child == 0) {
    counter.add(4);
    ::_exit(static_cast<int>(counter.value()));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(counter.value(), 3U);
}

// A fork while other threads hold the registry's lock: the child must be able to take it.
TEST(MetricsThreads, AChildIsNotLockedOut) {
  Counter counter({"test_total", "Tests."});
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) (void)counter.value();
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // what is locked out ends by it
      (void)counter.value();
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    if (HasFailure()) break;
  }
  stop = true;
  reader.join();
}

TEST(MetricsHistogram, CountsANegativeDurationAsNone) {
  Histogram histogram({"test_seconds", "Tests."});
  histogram.observe(nanoseconds(-5));
  EXPECT_EQ(histogram.counts().buckets[0], 1U);
  EXPECT_EQ(histogram.counts().sum_ns, 0U);
}

}  // namespace
}  // namespace farside::metrics
