// The C++ heap: containers larger than the budget, many threads, hints, and what is asked of it wrongly.
#include "farside/far/heap.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "far/heap/heap_layout.h"
#include "tests/far/local_space.h"

namespace farside::test {
namespace {

using namespace std::chrono_literals;

using far::Heap;
using far::HeapLayout;
using far::HeapOptions;
using far::Hint;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

std::unique_ptr<Heap> make_heap(std::uint64_t bytes = 16 * kMiB, std::uint64_t local_bytes = 2 * kMiB) {
  return std::make_unique<Heap>(std::make_unique<LocalSpace>(bytes), HeapOptions{.local_bytes = local_bytes});
}

// Containers hold more than may be here, and behave as always.
TEST(FarHeap, HoldsContainersLargerThanTheBudget) {
  const auto heap = make_heap();
  far::far_vector<std::uint32_t> numbers(kMiB, *heap);
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same every time
  for (std::uint32_t& number : numbers) number = random();
  const auto sum = std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
  std::ranges::sort(numbers);
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
  EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}), sum);
  EXPECT_LE(heap->statistics().bytes_here, 2 * kMiB);
  EXPECT_GT(heap->statistics().bytes_out, kMiB);

  using Pair = std::pair<const int, int>;
  std::map<int, int, std::less<>, far::Allocator<Pair>> squares{far::Allocator<Pair>(*heap)};
  for (int i = 0; i < 5000; ++i) squares[i] = i * i;
  for (int i = 0; i < 5000; i += 7) ASSERT_EQ(squares.at(i), i * i);
}

// Threads allocate, write, check and free, all at once.
TEST(FarHeap, ServesManyThreads) {
  const auto heap = make_heap();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int round = 0; round < 40; ++round) {
        far::far_vector<std::uint32_t> numbers(random() % 200'000, t, *heap);
        wrong += static_cast<int>(std::ranges::count_if(numbers, [t](std::uint32_t number) { return number != t; }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// What is freed is there for others, here and in the space.
TEST(FarHeap, GivesMemoryBack) {
  const auto heap = make_heap();
  for (int round = 0; round < 20; ++round) {
    const far::far_vector<std::uint64_t> most(15 * kMiB / 8, 7U, *heap);
    EXPECT_EQ(most.back(), 7U);
  }
  EXPECT_LT(heap->statistics().bytes_here, 64 * 4096U);  // zeros that were laid ahead of the last write
  EXPECT_THROW((void)heap->allocate(17 * kMiB), std::bad_alloc);
}

/// A heap of which a piece, half of its room, is being given back by another thread, until `end`: the space is not
/// done.
class HalfGivenBack {
 public:
  HalfGivenBack() {
    auto space = std::make_unique<LocalSpace>(16 * kMiB);
    space->before_discards = [this] {
      is_under_way_ = true;
      is_under_way_.notify_all();
      may_end_.wait(false);
    };
    heap_ = std::make_unique<Heap>(std::move(space), HeapOptions{.local_bytes = 2 * kMiB});
    piece_ = static_cast<std::byte*>(heap_->allocate(kBytes));
    std::memset(piece_, 1, kBytes);  // more than may be here
    giver_ = std::thread([this] { heap_->deallocate(piece_); });
    is_under_way_.wait(false);
  }
  ~HalfGivenBack() {
    if (giver_.joinable()) end();
  }
  HalfGivenBack(const HalfGivenBack&) = delete;
  HalfGivenBack& operator=(const HalfGivenBack&) = delete;

  static constexpr std::size_t kBytes = 8 * kMiB;

  [[nodiscard]] std::future<std::byte*> allocate(std::size_t bytes) {
    return std::async(std::launch::async, [this, bytes] { return static_cast<std::byte*>(heap_->allocate(bytes)); });
  }
  [[nodiscard]] const std::byte* piece() const { return piece_; }
  void end() {
    may_end_ = true;
    may_end_.notify_all();
    giver_.join();
  }

 private:
  std::atomic<bool> is_under_way_ = false;
  std::atomic<bool> may_end_ = false;
  std::unique_ptr<Heap> heap_;
  std::byte* piece_ = nullptr;
  std::thread giver_;
};

// What a thread gives back holds up no thread that allocates, and is not the next one's before the space is done.
TEST(FarHeap, AllocatesWhileAnotherThreadGivesBack) {
  HalfGivenBack half;
  auto other = half.allocate(kMiB);
  const std::future_status status = other.wait_for(60s);
  half.end();
  ASSERT_EQ(status, std::future_status::ready) << "it waited for what another thread gave back";
  const std::byte* const begin = other.get();
  EXPECT_TRUE(begin + kMiB <= half.piece() || begin >= half.piece() + HalfGivenBack::kBytes);
}

TEST(FarHeap, WaitsForRoomThatIsBeingGivenBack) {
  HalfGivenBack half;
  auto most = half.allocate(15 * kMiB);
  EXPECT_EQ(most.wait_for(50ms), std::future_status::timeout);
  half.end();
  const std::byte* const begin = most.get();
  EXPECT_EQ(std::count(begin, begin + 15 * kMiB, std::byte{0}), static_cast<std::ptrdiff_t>(15 * kMiB));
}

TEST(FarHeap, PinnedRangesStay) {
  const auto heap = make_heap();
  far::far_vector<std::uint64_t> pinned(kMiB / 8, 1U, *heap);
  heap->advise(pinned.data(), kMiB, Hint::pinned);
  far::far_vector<std::uint64_t> others(8 * kMiB / 8, 2U, *heap);
  const std::uint64_t before = heap->statistics().faults;
  EXPECT_EQ(std::ranges::count(pinned, 1U), static_cast<std::ptrdiff_t>(pinned.size()));
  EXPECT_EQ(heap->statistics().faults, before);
}

/// A file without a name, of words that follow from their place.
class WordsOnDisk {
 public:
  explicit WordsOnDisk(std::uint64_t bytes) {
    char name[] = "/tmp/farside-heap-XXXXXX";
    const Fd plain(::mkstemp(name));
    direct_ = Fd(::open(name, O_RDONLY | O_DIRECT | O_CLOEXEC));
    ::unlink(name);
    std::vector<std::uint64_t> words(bytes / 8);
    std::iota(words.begin(), words.end(), 1U);
    const bool is_written = ::write(plain.get(), words.data(), bytes) == static_cast<ssize_t>(bytes);
    if (!is_written || ::fsync(plain.get()) != 0) direct_.reset();
  }

  /// Nothing where the file system of /tmp has no direct reads.
  [[nodiscard]] const Fd& direct() const { return direct_; }

 private:
  Fd direct_;
};

class FarHeapDevices : public testing::TestWithParam<bool> {};

// Whether or not the heap serves system calls: a device writes to the page that it was given, which may not be evicted
// before.
TEST_P(FarHeapDevices, PinnedRangesKeepWhatADeviceWrites) {
  const WordsOnDisk file(kMiB);
  if (!file.direct()) GTEST_SKIP() << "no direct reads of files in /tmp";
  std::unique_ptr<Heap> heap;
  try {
    const HeapOptions options{.local_bytes = 2 * kMiB, .for_system_calls = GetParam()};
    heap = std::make_unique<Heap>(std::make_unique<LocalSpace>(16 * kMiB), options);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  auto* const pinned = static_cast<std::uint64_t*>(heap->allocate(kMiB, 4096));
  heap->advise(pinned, kMiB, Hint::pinned);
  far::far_vector<std::uint64_t> others(8 * kMiB / 8, 1U, *heap);
  std::atomic<bool> is_done{false};
  std::thread other([&] {
    while (!is_done) std::ranges::for_each(others, [](std::uint64_t& each) { ++each; });
  });
  std::uint64_t wrong = 0;
  for (int round = 0; round < 20; ++round) {
    std::fill_n(pinned, kMiB / 8, 0U);
    const ssize_t bytes = ::pread(file.direct().get(), pinned, kMiB, 0);
    EXPECT_EQ(bytes, static_cast<ssize_t>(kMiB)) << std::strerror(errno);
    for (std::uint64_t i = 0; i < kMiB / 8; ++i) wrong += static_cast<std::uint64_t>(pinned[i] != i + 1);
  }
  is_done = true;
  other.join();
  EXPECT_EQ(wrong, 0U);
  heap->deallocate(pinned);
}

INSTANTIATE_TEST_SUITE_P(Modes, FarHeapDevices, testing::Bool(),
                         [](const auto& one) { return one.param ? "for_system_calls" : "by_signals"; });

// A range that is said to be sequential is fetched far ahead from its first page on.
TEST(FarHeap, SequentialRangesAreFetchedAhead) {
  const auto heap = make_heap();
  far::far_vector<std::uint64_t> numbers(8 * kMiB / 8, 1U, *heap);
  heap->advise(numbers.data(), 8 * kMiB, Hint::sequential);
  const auto before = heap->statistics();
  EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}), numbers.size());
  EXPECT_LT((heap->statistics().faults - before.faults) * 3 * 4096, heap->statistics().bytes_in - before.bytes_in);
}

TEST(FarHeap, RefusesWhatCannotBe) {
  EXPECT_THROW(make_heap(16 * kMiB, 0), UsageError);
  EXPECT_THROW(make_heap(16 * kMiB, std::uint64_t{1} << 50U), UsageError);
  EXPECT_THROW(make_heap(4096), Error);
  const auto heap = make_heap();
  int elsewhere = 0;
  EXPECT_THROW(heap->advise(&elsewhere, sizeof elsewhere, Hint::updated), UsageError);
}

/// All mappings that the kernel gives this process, but for a few.
class AllMappings {
 public:
  explicit AllMappings(int spared) {
    std::ifstream setting("/proc/sys/vm/max_map_count");
    std::size_t most = 0;
    setting >> most;
    bytes_ = (most + 1000) * kPage;
    void* const place = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base_ = static_cast<std::byte*>(place);
    std::byte* next = base_ + kPage;
    for (; ::mprotect(next, kPage, PROT_READ) == 0; next += 2 * kPage) {
    }
    if (errno != ENOMEM) ::_exit(3);
    for (; spared > 0; spared -= 2) ::mprotect(next -= 2 * kPage, kPage, PROT_NONE);
  }
  ~AllMappings() { ::munmap(base_, bytes_); }
  AllMappings(const AllMappings&) = delete;
  AllMappings& operator=(const AllMappings&) = delete;

 private:
  static constexpr std::size_t kPage = 4096;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

// A heap that there are no mappings for is an Error, whichever of those it needs is missing; one that is there goes on.
TEST(FarHeapDeath, OfNoProcessWhenNothingCanBeMapped) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs mappings of its own";
#endif
  EXPECT_EXIT(
      {
        int refused = 0;
        for (int spared = 0; spared < 60; spared += 6) {
          auto space = std::make_unique<LocalSpace>(16 * kMiB);
          const AllMappings all(spared);
          try {
            const Heap heap(std::move(space), HeapOptions{.local_bytes = 2 * kMiB});
          } catch (const Error& error) {
            if (refused++ == 0) std::cerr << error.what() << '\n';
          }
        }
        const auto heap = make_heap();
        far::far_vector<std::uint64_t> numbers(kMiB, 1U, *heap);
        const AllMappings all(0);
        for (std::uint64_t& number : numbers) number += 1;
        const bool is_right = std::ranges::count(numbers, 2U) == static_cast<std::ptrdiff_t>(kMiB);
        ::_exit(is_right && refused > 1 && refused < 10 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "vm.max_map_count");
}

TEST(FarHeapDeath, OfWhatIsGivenBackTwice) {
  EXPECT_DEATH(
      {
        const auto heap = make_heap();
        void* const piece = heap->allocate(100);
        heap->deallocate(piece);
        heap->deallocate(piece);
      },
      "cannot give back far memory");
}

// Whatever is taken and given back: pieces never overlap, are aligned, and all of the room comes back.
TEST(FarLayout, KeepsPiecesApart) {
  constexpr std::size_t kBytes = 64 * kMiB;
  HeapLayout layout(kBytes);
  std::map<std::size_t, std::size_t> pieces;  // begin, end
  std::mt19937_64 random(3);                  // NOLINT(cert-msc51-cpp): the same every time
  for (int step = 0; step < 50'000; ++step) {
    if (random() % 2 == 0 && !pieces.empty()) {
      auto victim = pieces.lower_bound(random() % kBytes);
      if (victim == pieces.end()) victim = pieces.begin();
      const auto given = layout.give(victim->first);
      ASSERT_TRUE(given);
      ASSERT_FALSE(layout.give(victim->first));
      if (given->bytes != 0) layout.reuse(*given);
      pieces.erase(victim);
      continue;
    }
    const std::size_t bytes = (std::size_t{1} << random() % 20U) + random() % 100;
    const std::size_t alignment = std::size_t{1} << random() % 18U;
    const auto begin = layout.take(bytes, alignment);
    if (!begin) continue;
    ASSERT_EQ(*begin % alignment, 0U);
    const auto found = layout.find(*begin);
    ASSERT_TRUE(found);
    ASSERT_GE(found->bytes, bytes);
    const std::size_t end = *begin + found->bytes;
    ASSERT_LE(end, kBytes);
    const auto next = pieces.lower_bound(*begin);
    ASSERT_TRUE(next == pieces.end() || next->first >= end);
    ASSERT_TRUE(next == pieces.begin() || std::prev(next)->second <= *begin);
    pieces.emplace(*begin, end);
  }
  for (const auto& [begin, end] : pieces) {
    const auto given = layout.give(begin);
    ASSERT_TRUE(given);
    if (given->bytes != 0) layout.reuse(*given);
  }
  EXPECT_EQ(layout.used_bytes(), 0U);
  EXPECT_TRUE(layout.take(kBytes, 1));
}

}  // namespace
}  // namespace farside::test
