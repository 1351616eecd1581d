// Sorts more numbers than it may keep in this machine's memory: the rest lies in that of a pool's nodes.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <random>

#include "farside/base/error.h"
#include "farside/far/heap.h"
#include "farside/far/pool.h"

namespace far = farside::far;

int main() {
  constexpr std::size_t kCount = 8UL << 20U;
  constexpr std::uint64_t kBytes = kCount * sizeof(std::uint64_t);
  try {
    far::Heap heap(far::open_pool({.bytes = 2 * kBytes}), {.local_bytes = kBytes / 4});
    far::far_vector<std::uint64_t> numbers(kCount, heap);
    std::generate(numbers.begin(), numbers.end(), std::mt19937_64(1));
    std::sort(numbers.begin(), numbers.end());
    std::cout << (std::is_sorted(numbers.begin(), numbers.end()) ? "sorted " : "did not sort ") << kBytes / (1U << 20U)
              << " MiB of numbers, " << kBytes / 4 / (1U << 20U) << " MiB of them here\n";
    std::cerr << heap.statistics().faults << " times something was fetched\n";
    return 0;
  } catch (const farside::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
