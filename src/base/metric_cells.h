// metric_cells.h — the words that counters and histograms count in: each thread has its own.
//
// - Chunk: the cells of one histogram, or of up to 224 counters. A thread allocates one when it first counts there.
// - ChunkTable: a thread's chunks, by numbers that are the same in all threads; null where it has not counted.
//
// A cell is written by its thread alone, without a locked instruction, and read by others. The table that a thread has
// before its first count, and the one it has after its end, are empty: counting then takes the slow path.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/latency_buckets.h"

namespace farside::metrics {

inline constexpr std::size_t kChunkCells = 224;  // a histogram's buckets and sum, in whole cache lines
inline constexpr std::size_t kMaxChunks = 256;
inline constexpr std::size_t kSumCell = kBuckets;
static_assert(kSumCell < kChunkCells && kChunkCells % 8 == 0);

using Cell = std::atomic<std::uint64_t>;
struct alignas(64) Chunk {
  std::array<Cell, kChunkCells> cells{};
};
struct ChunkTable {
  std::array<Chunk*, kMaxChunks> chunks{};
};

/// The place where a metric counts: a histogram has the whole chunk, a counter one cell.
struct Place {
  std::uint32_t chunk = 0;
  std::uint32_t cell = 0;
};

/// The calling thread's. It lies in the static block of thread-local memory: no call is needed to find it.
extern constinit thread_local const ChunkTable* own_table __attribute__((tls_model("initial-exec")));

/// Requires: the calling thread alone writes to `cell`.
inline void add_to(Cell& cell, std::uint64_t addend) noexcept {
  cell.store(cell.load(std::memory_order_relaxed) + addend, std::memory_order_relaxed);
}

/// For a thread that has no such chunk. Allocates it, or counts for the ended threads when this one has ended.
void add_slowly(Place place, std::uint64_t addend) noexcept;

}  // namespace farside::metrics
