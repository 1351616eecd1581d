// The same by MPI's one-sided operations, on memory that is where it is: what cannot move has to remember nothing.
#include <algorithm>
#include <vector>

#include <mpi.h>

#include "bench/gas/amounts.h"
#include "bench/harness/mpi_orders.h"

namespace farside::bench {
namespace {

/// Words, each rank with those that follow each other.
class Window {
 public:
  explicit Window(std::uint64_t words_of_rank) : words_of_rank_(words_of_rank) {
    void* base = nullptr;
    const auto bytes = static_cast<MPI_Aint>(words_of_rank * sizeof(std::uint64_t));
    MPI_Win_allocate(bytes, sizeof(std::uint64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window_);
    std::fill_n(static_cast<std::uint64_t*>(base), words_of_rank, 0);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~Window() {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  [[nodiscard]] int rank_of(std::uint64_t index) const { return static_cast<int>(index / words_of_rank_); }
  [[nodiscard]] MPI_Aint place_of(std::uint64_t index) const { return static_cast<MPI_Aint>(index % words_of_rank_); }
  [[nodiscard]] MPI_Win handle() const { return window_; }

  /// Words of one rank, not awaited.
  void begin_get(std::uint64_t index, std::uint64_t* into, std::uint64_t count) const {
    const int words = static_cast<int>(count);
    MPI_Get(into, words, MPI_UINT64_T, rank_of(index), place_of(index), words, MPI_UINT64_T, window_);
  }
  /// Those that follow each other, of as many ranks as have some.
  void get(std::uint64_t index, std::uint64_t* into, std::uint64_t count) const {
    while (count != 0) {
      const std::uint64_t piece = std::min(count, words_of_rank_ - index % words_of_rank_);
      begin_get(index, into, piece);
      flush(rank_of(index));
      index += piece;
      into += piece;
      count -= piece;
    }
  }
  void put(std::uint64_t index, const std::uint64_t* from, std::uint64_t count) const {
    const int words = static_cast<int>(count);
    MPI_Put(from, words, MPI_UINT64_T, rank_of(index), place_of(index), words, MPI_UINT64_T, window_);
    flush(rank_of(index));
  }
  void add_one(std::uint64_t index) const {
    static constexpr std::uint64_t kOne = 1;
    std::uint64_t old = 0;
    MPI_Fetch_and_op(&kOne, &old, MPI_UINT64_T, rank_of(index), place_of(index), MPI_SUM, window_);
    flush(rank_of(index));
  }
  void flush(int rank) const { MPI_Win_flush(rank, window_); }

 private:
  std::uint64_t words_of_rank_;
  MPI_Win window_ = MPI_WIN_NULL;
};

void run() {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto ranks = static_cast<std::uint64_t>(size);
  constexpr std::uint64_t kLargestWords = kLargestBytes / sizeof(std::uint64_t);
  const Window pages(kLargestWords);
  const std::uint64_t page = (ranks - 1) * kLargestWords;  // the last rank's
  const Window elements((kElements + ranks - 1) / ranks);
  RandomIndices random(static_cast<unsigned>(rank));
  std::vector<std::uint64_t> values(std::max(kLargestWords, kElementsOfRun));

  Work work;
  work.alone("get", [&](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) pages.get(page, values.data(), bytes / sizeof(std::uint64_t));
  });
  work.alone("put", [&](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) pages.put(page, values.data(), bytes / sizeof(std::uint64_t));
  });
  const auto offer = [&work](const char* name, auto make) {
    work.together_in_part(name, each_of_amount(make, [] { MPI_Barrier(MPI_COMM_WORLD); }));
  };
  offer("update", [&] { elements.add_one(random.below(kElements)); });
  offer("get-element", [&] { elements.get(random.below(kElements), values.data(), 1); });
  offer("gather", [&] {
    for (std::uint64_t i = 0; i < kGathered; ++i) elements.begin_get(random.below(kElements), &values[i], 1);
    MPI_Win_flush_all(elements.handle());
  });
  offer("get-run", [&] {
    elements.get(random.below(kElements / kElementsOfRun) * kElementsOfRun, values.data(), kElementsOfRun);
  });
  serve(work);
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  farside::bench::run();
  MPI_Finalize();
  return 0;
}
