// The same by Global Arrays, whose elements stay where they are.
#include <algorithm>
#include <vector>

#include <ga.h>
#include <macdecls.h>
#include <mpi.h>

#include "bench/gas/amounts.h"
#include "bench/harness/mpi_orders.h"

namespace farside::bench {
namespace {

/// Of 8 bytes each, every rank with those that follow each other.
class Elements {
 public:
  explicit Elements(std::uint64_t count) {
    int extent = static_cast<int>(count);
    char name[] = "elements";  // NOLINT(modernize-avoid-c-arrays): it wants to be able to change it
    array_ = NGA_Create(C_LONG, 1, &extent, name, nullptr);
    GA_Zero(array_);
  }
  ~Elements() { GA_Destroy(array_); }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  [[nodiscard]] std::uint64_t first_of(int rank) const {
    int low = 0;
    int high = 0;
    NGA_Distribution(array_, rank, &low, &high);
    return static_cast<std::uint64_t>(low);
  }

  void get(std::uint64_t first, long* into, std::uint64_t count) const {
    auto [low, high] = bounds(first, count);
    NGA_Get(array_, &low, &high, into, &stride_);
  }
  /// As its interface has it: not awaited at the other side.
  void put(std::uint64_t first, long* from, std::uint64_t count) const {
    auto [low, high] = bounds(first, count);
    NGA_Put(array_, &low, &high, from, &stride_);
  }
  void gather(std::vector<int>& indices, long* into) const {
    NGA_Gather_flat(array_, into, indices.data(), static_cast<int>(indices.size()));
  }
  void add_one(std::uint64_t index) const {
    int at = static_cast<int>(index);
    NGA_Read_inc(array_, &at, 1);
  }

 private:
  static std::pair<int, int> bounds(std::uint64_t first, std::uint64_t count) {
    return {static_cast<int>(first), static_cast<int>(first + count - 1)};
  }

  int array_ = 0;
  mutable int stride_ = 1;
};

void run() {
  constexpr std::uint64_t kLargestElements = kLargestBytes / sizeof(long);
  const int last = GA_Nnodes() - 1;
  const Elements pages(kLargestElements * static_cast<std::uint64_t>(GA_Nnodes()));
  const std::uint64_t page = pages.first_of(last);
  const Elements elements(kElements);
  RandomIndices random(static_cast<unsigned>(GA_Nodeid()));
  std::vector<int> indices(kGathered);
  std::vector<long> values(std::max(kLargestElements, kElementsOfRun));

  Work work;
  work.alone("get", [&](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) pages.get(page, values.data(), bytes / sizeof(long));
  });
  work.alone("put", [&](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) pages.put(page, values.data(), bytes / sizeof(long));
  });
  const auto offer = [&work](const char* name, auto make) {
    work.together_in_part(name, each_of_amount(make, [] { GA_Sync(); }));
  };
  offer("update", [&] { elements.add_one(random.below(kElements)); });
  offer("get-element", [&] { elements.get(random.below(kElements), values.data(), 1); });
  offer("gather", [&] {
    for (int& index : indices) index = static_cast<int>(random.below(kElements));
    elements.gather(indices, values.data());
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
  GA_Initialize();
  constexpr Integer kScratch = 1 << 20;  // doubles, of its stack and of its heap: a gather takes some
  if (MA_init(MT_C_DBL, kScratch, kScratch) == 0) return 1;
  farside::bench::run();
  GA_Terminate();
  MPI_Finalize();
  return 0;
}
