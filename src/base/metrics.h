// metrics.h — counters and latency histograms for hot paths, and the registry that a metrics endpoint reads.
//
// A metric is registered at its construction and removed at its destruction, with its counts. An increment costs a few
// plain instructions and no locked one: each thread counts in cells of its own (metric_cells.h).
//
// Guarantees:
// - Nothing is lost: the counts of a thread that ends are added to those of the ended threads.
// - Successive snapshots of a metric never decrease. A snapshot contains every increment that happened before it.
// - A snapshot is no cut through time: of two increments of one thread it may contain the later alone.
//
// Memory: a thread that counts takes 2 KiB for its table, and 1.75 KiB for each histogram that it has counted in and
// for each 224 counters; at most 450 KiB, with 256 of these. A thread that never counts takes 8 bytes. It is freed when
// the thread ends; a removed metric's cells are used again by later ones.
//
// A child of fork begins with the counts that its parent had at the fork, of all threads, and counts on alone.
//
// Thread safety: every call, from any thread; no increment happens after the destruction of its metric has begun. Not
// for signal handlers: one that interrupts an increment may lose it. Static objects may count while they are
// constructed or destroyed: the registry is made when first used, and never destroyed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/latency_buckets.h"
#include "base/metric_cells.h"

namespace farside::metrics {

/// The texts are static: the registry keeps no copy.
struct Description {
  std::string_view name;     ///< as Prometheus has it: farside_kv_get_seconds
  std::string_view help;     ///< one line
  std::string_view label{};  ///< from="file", or nothing
};

enum class Kind : std::uint8_t { counter, histogram };

class Counter {
 public:
  /// Throws Error when 256 chunks are taken.
  explicit Counter(const Description& description);
  ~Counter();
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  void add(std::uint64_t addend = 1) noexcept {
    if (Chunk* const chunk = own_table->chunks[place_.chunk]) [[likely]] {
      add_to(chunk->cells[place_.cell], addend);
    } else {
      add_slowly(place_, addend);
    }
  }
  /// Sums over all threads, under the registry's lock.
  [[nodiscard]] std::uint64_t value() const;

 private:
  const Place place_;
};

class Histogram {
 public:
  /// Throws Error when 256 chunks are taken.
  explicit Histogram(const Description& description);
  ~Histogram();
  Histogram(const Histogram&) = delete;
  Histogram& operator=(const Histogram&) = delete;

  /// A negative duration counts as none.
  void observe(std::chrono::nanoseconds duration) noexcept {
    const auto ns = static_cast<std::uint64_t>(duration.count() < 0 ? 0 : duration.count());
    const auto bucket = static_cast<std::uint32_t>(bucket_of(ns));
    if (Chunk* const chunk = own_table->chunks[place_.chunk]) [[likely]] {
      add_to(chunk->cells[bucket], 1);
      add_to(chunk->cells[kSumCell], ns);
    } else {
      add_slowly({place_.chunk, bucket}, 1);
      add_slowly({place_.chunk, kSumCell}, ns);
    }
  }
  /// Sums over all threads, under the registry's lock.
  [[nodiscard]] LatencyCounts counts() const;

 private:
  const Place place_;
};

/// Observes how long it lives.
class ScopedLatency {
 public:
  explicit ScopedLatency(Histogram& histogram) : histogram_(histogram) {}
  ~ScopedLatency() { histogram_.observe(std::chrono::steady_clock::now() - began_); }
  ScopedLatency(const ScopedLatency&) = delete;
  ScopedLatency& operator=(const ScopedLatency&) = delete;

 private:
  Histogram& histogram_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

struct Sample {
  Description description;
  Kind kind{};
  std::uint64_t count = 0;    ///< of a counter
  LatencyCounts latencies{};  ///< of a histogram
};

/// Returns all metrics, by name and then by label. Those with the same name and label are summed.
[[nodiscard]] std::vector<Sample> snapshot();

}  // namespace farside::metrics
