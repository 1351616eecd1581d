#include "base/metrics.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <pthread.h>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/mutex.h"

namespace farside::metrics {

namespace {

constinit const ChunkTable kNotCounted{};
constinit const ChunkTable kEnded{};

constexpr std::uint32_t kNoChunk = kMaxChunks;

/// One thread's, or those of the threads that have ended. The pointers are written under the registry's lock, by the
/// owner alone: the owner reads them without the lock, others under it.
struct OwnedChunks {
  ChunkTable table;
  std::vector<std::unique_ptr<Chunk>> chunks;

  Chunk& chunk(std::uint32_t number) {
    Chunk*& place = table.chunks.at(number);
    if (place == nullptr) place = chunks.emplace_back(std::make_unique<Chunk>()).get();
    return *place;
  }
  [[nodiscard]] std::uint64_t read(std::uint32_t number, std::size_t cell) const {
    const Chunk* const chunk = table.chunks.at(number);
    return chunk == nullptr ? 0 : chunk->cells.at(cell).load(std::memory_order_relaxed);
  }
};

class Registry {
 public:
  // Never destroyed: threads and static objects may outlive any order of destruction.
  static Registry& get() {
    static Registry& registry = *new Registry;
    return registry;
  }

  Place add(const Description& description, Kind kind) EXCLUDES(mutex_);
  void remove(Place place, Kind kind) EXCLUDES(mutex_);
  void add_slowly(Place place, std::uint64_t addend) EXCLUDES(mutex_);
  void end_thread() EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t count(Place place) EXCLUDES(mutex_);
  [[nodiscard]] LatencyCounts latencies(Place place) EXCLUDES(mutex_);
  [[nodiscard]] std::vector<Sample> samples() EXCLUDES(mutex_);

 private:
  struct Entry {
    Description description;
    Kind kind;
    Place place;
  };

  Registry();
  [[nodiscard]] Place take_place(const Description& description, Kind kind) REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t take_chunk(const Description& description) REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t sum(Place place) const REQUIRES(mutex_);
  [[nodiscard]] LatencyCounts sum_latencies(Place place) const REQUIRES(mutex_);
  void clear(Place place) const REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<OwnedChunks>> threads_ GUARDED_BY(mutex_);  // that live, and have counted
  OwnedChunks ended_ GUARDED_BY(mutex_);
  std::uint32_t next_chunk_ GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> free_chunks_ GUARDED_BY(mutex_);
  std::vector<Place> free_cells_ GUARDED_BY(mutex_);
};

/// Made at a thread's first count: its destructor runs at the thread's end.
struct ThreadEnd {
  ThreadEnd() = default;
  ~ThreadEnd() { Registry::get().end_thread(); }
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;
};

// A lock that another thread holds at a fork would stay locked in the child.
Registry::Registry() {
  const auto lock = []() NO_THREAD_SAFETY_ANALYSIS { get().mutex_.lock(); };
  const auto unlock = []() NO_THREAD_SAFETY_ANALYSIS { get().mutex_.unlock(); };
  ::pthread_atfork(lock, unlock, unlock);
}

std::uint32_t Registry::take_chunk(const Description& description) {
  if (!free_chunks_.empty()) {
    const std::uint32_t chunk = free_chunks_.back();
    free_chunks_.pop_back();
    return chunk;
  }
  if (next_chunk_ == kNoChunk) {
    throw Error({"count", std::string(description.name), "there are too many metrics", "share one among its owners"});
  }
  return next_chunk_++;
}

Place Registry::take_place(const Description& description, Kind kind) {
  if (kind == Kind::histogram) return {take_chunk(description), 0};
  if (free_cells_.empty()) {
    const std::uint32_t chunk = take_chunk(description);
    for (std::uint32_t cell = kChunkCells; cell-- != 0;) free_cells_.push_back({chunk, cell});
  }
  const Place place = free_cells_.back();
  free_cells_.pop_back();
  return place;
}

Place Registry::add(const Description& description, Kind kind) {
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    assert_that(entry.description.name != description.name || entry.kind == kind, "a metric's name has one kind");
  }
  const Place place = take_place(description, kind);
  entries_.push_back({description, kind, place});
  return place;
}

// Other threads' cells are written to here: none of them counts in a metric that is destroyed, and the next metric in
// this place is made under the lock.
void Registry::clear(Place place) const {
  const auto clear_in = [place](const OwnedChunks& owned) {
    Chunk* const chunk = owned.table.chunks.at(place.chunk);
    if (chunk != nullptr) chunk->cells.at(place.cell).store(0, std::memory_order_relaxed);
  };
  for (const auto& thread : threads_) clear_in(*thread);
  clear_in(ended_);
}

void Registry::remove(Place place, Kind kind) {
  const MutexLock lock(mutex_);
  std::erase_if(entries_, [place](const Entry& entry) {
    return entry.place.chunk == place.chunk && entry.place.cell == place.cell;
  });
  if (kind == Kind::counter) {
    clear(place);
    free_cells_.push_back(place);
  } else {
    for (std::uint32_t cell = 0; cell <= kSumCell; ++cell) clear({place.chunk, cell});
    free_chunks_.push_back(place.chunk);
  }
}

void Registry::add_slowly(Place place, std::uint64_t addend) {
  const MutexLock lock(mutex_);
  OwnedChunks* owned = &ended_;
  if (own_table == &kNotCounted) {
    owned = threads_.emplace_back(std::make_unique<OwnedChunks>()).get();
    own_table = &owned->table;
  } else if (own_table != &kEnded) {
    const auto own = std::ranges::find(threads_, own_table, [](const auto& thread) { return &thread->table; });
    assert_that(own != threads_.end(), "the registry knows each thread that counts");
    owned = own->get();
  }
  add_to(owned->chunk(place.chunk).cells.at(place.cell), addend);
}

void Registry::end_thread() {
  const MutexLock lock(mutex_);
  const auto own = std::ranges::find(threads_, own_table, [](const auto& thread) { return &thread->table; });
  own_table = &kEnded;
  if (own == threads_.end()) return;
  for (std::uint32_t number = 0; number < next_chunk_; ++number) {
    const Chunk* const chunk = (*own)->table.chunks.at(number);
    if (chunk == nullptr) continue;
    Chunk& sums = ended_.chunk(number);
    for (std::size_t cell = 0; cell < kChunkCells; ++cell) {
      add_to(sums.cells.at(cell), chunk->cells.at(cell).load(std::memory_order_relaxed));
    }
  }
  threads_.erase(own);
}

std::uint64_t Registry::sum(Place place) const {
  std::uint64_t sum = ended_.read(place.chunk, place.cell);
  for (const auto& thread : threads_) sum += thread->read(place.chunk, place.cell);
  return sum;
}

LatencyCounts Registry::sum_latencies(Place place) const {
  LatencyCounts counts;
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) counts.buckets.at(bucket) = sum({place.chunk, bucket});
  counts.sum_ns = sum({place.chunk, kSumCell});
  return counts;
}

std::uint64_t Registry::count(Place place) {
  const MutexLock lock(mutex_);
  return sum(place);
}

LatencyCounts Registry::latencies(Place place) {
  const MutexLock lock(mutex_);
  return sum_latencies(place);
}

std::vector<Sample> Registry::samples() {
  std::vector<Sample> samples;
  {
    const MutexLock lock(mutex_);
    for (const Entry& entry : entries_) {
      Sample sample{.description = entry.description, .kind = entry.kind};
      if (entry.kind == Kind::counter) {
        sample.count = sum(entry.place);
      } else {
        sample.latencies = sum_latencies(entry.place);
      }
      samples.push_back(sample);
    }
  }
  const auto key = [](const Sample& sample) { return std::tie(sample.description.name, sample.description.label); };
  std::ranges::stable_sort(samples, {}, key);
  std::vector<Sample> summed;
  for (const Sample& sample : samples) {
    if (summed.empty() || key(summed.back()) != key(sample)) {
      summed.push_back(sample);
      continue;
    }
    summed.back().count += sample.count;
    summed.back().latencies += sample.latencies;
  }
  return summed;
}

}  // namespace

constinit thread_local const ChunkTable* own_table __attribute__((tls_model("initial-exec"))) = &kNotCounted;

// The end is arranged for before the registry's lock is taken: that may allocate.
void add_slowly(Place place, std::uint64_t addend) noexcept {
  if (own_table != &kEnded) {
    thread_local const ThreadEnd end;
    (void)end;
  }
  Registry::get().add_slowly(place, addend);
}

Counter::Counter(const Description& description) : place_(Registry::get().add(description, Kind::counter)) {}
Counter::~Counter() { Registry::get().remove(place_, Kind::counter); }
std::uint64_t Counter::value() const { return Registry::get().count(place_); }

Histogram::Histogram(const Description& description) : place_(Registry::get().add(description, Kind::histogram)) {}
Histogram::~Histogram() { Registry::get().remove(place_, Kind::histogram); }
LatencyCounts Histogram::counts() const { return Registry::get().latencies(place_); }

std::vector<Sample> snapshot() { return Registry::get().samples(); }

}  // namespace farside::metrics
