// Work in far memory while nodes are lost. Arguments: where the memory is, "heap" or "plain" (as when this runs below
// farside far), how many pages, and how many of them may be here. Each question is answered:
//
//   "work"   with the median and the longest time of a unit of work, in nanoseconds, when the next line has come
//   "check"  with how many pages are not as they were left
//
// A unit is to look at a random page and to write to it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/far/heap.h"
#include "farside/far/pool.h"

#include "bench/harness/contend.h"
#include "bench/harness/statistics.h"

namespace farside::bench {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kUnitsBetweenLooks = 64;  // at the input
constexpr std::size_t kTimesKept = 1 << 16;     // for the median

class Memory {
 public:
  Memory(const std::string& where, std::size_t pages, std::size_t pages_here) : written_(pages) {
    if (where == "heap") {
      const far::PoolOptions options{.bytes = pages * kPageBytes, .protection = far::Protection::mirror};
      heap_.emplace(far::open_pool(options), far::HeapOptions{.local_bytes = pages_here * kPageBytes});
      base_ = static_cast<std::byte*>(heap_->allocate(pages * kPageBytes, kPageBytes));
    } else {
      void* const place =
          ::mmap(nullptr, pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (place == MAP_FAILED) throw errno_error("map memory", "for pages");
      base_ = static_cast<std::byte*>(place);
    }
    for (std::size_t page = 0; page < pages; ++page) use(page);
  }

  [[nodiscard]] std::size_t pages() const { return written_.size(); }
  [[nodiscard]] bool is_right(std::size_t page) const {
    return word(page, 0) == written_[page] && word(page, kPageBytes - sizeof(std::uint64_t)) == written_[page] + page;
  }
  void use(std::size_t page) {
    if (!is_right(page) && written_[page] != 0) ++wrong_;
    ++written_[page];
    word(page, 0) = written_[page];
    word(page, kPageBytes - sizeof(std::uint64_t)) = written_[page] + page;
  }
  [[nodiscard]] std::size_t wrong() const {
    std::size_t found = wrong_;
    for (std::size_t page = 0; page < pages(); ++page) found += is_right(page) ? 0 : 1;
    return found;
  }

 private:
  [[nodiscard]] volatile std::uint64_t& word(std::size_t page, std::size_t offset) const {
    return *reinterpret_cast<volatile std::uint64_t*>(base_ + page * kPageBytes + offset);
  }

  std::optional<far::Heap> heap_;
  std::byte* base_ = nullptr;
  std::vector<std::uint32_t> written_;  ///< how often
  std::size_t wrong_ = 0;
};

bool next_line_has_come() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) != 0;
}

void work(Memory& memory, std::mt19937_64& random) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  double longest = 0;
  Clock::time_point before = Clock::now();
  for (std::size_t unit = 0; unit % kUnitsBetweenLooks != 0 || !next_line_has_come(); ++unit) {
    memory.use(random() % memory.pages());
    const Clock::time_point now = Clock::now();
    const double time = std::chrono::duration<double, std::nano>(now - before).count();
    before = now;
    longest = std::max(longest, time);
    if (times.size() < kTimesKept) {
      times.push_back(time);
    } else {
      times[unit % kTimesKept] = time;
    }
  }
  std::sort(times.begin(), times.end());
  std::cout << (times.empty() ? 0 : quantile(times, 0.5)) << ' ' << longest << std::endl;
}

void run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Memory memory(words.at(0), std::stoull(words.at(1)), std::stoull(words.at(2)));
  std::mt19937_64 random(1);
  std::cout << "ready" << std::endl;
  for (std::string question; std::getline(std::cin, question);) {
    if (question == "work") {
      work(memory, random);
    } else if (question == "check") {
      std::cout << memory.wrong() << std::endl;
    }
  }
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::contend([&] { farside::bench::run(argc, argv); });
}
