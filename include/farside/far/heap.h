// heap.h — memory of other machines, as C++ objects in this process.
//
//   far::Heap heap(far::open_pool({.bytes = 16UL << 30U}), {.local_bytes = 2UL << 30U});  // pool.h
//   far::far_vector<double> samples(1'000'000'000, heap);         // 8 GB, of which at most 2 GiB are here
//   heap.advise(samples.data(), samples.size() * sizeof(double), far::Hint::sequential);
//
// The space decides where the bytes are kept. docs/far_heap.md has what programs must know: system calls, devices,
// fork, signals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "farside/far/hint.h"

namespace farside::far {

class Space;

struct HeapOptions {
  /// As much of the heap may be in this machine's memory at once.
  std::uint64_t local_bytes = 0;
  /// Serve faults in a thread of its own. System calls in which the kernel copies may then touch the heap; each fault
  /// costs several times more. Memory that a device writes into must be Hint::pinned all the same.
  bool for_system_calls = false;
};

struct HeapStatistics {
  std::uint64_t faults;             ///< accesses to what was not here
  std::uint64_t protection_faults;  ///< first writes to what came unchanged
  std::uint64_t ahead_pages;        ///< that came before they were asked for, zeros as well,
  std::uint64_t ahead_hits;         ///< and thought to have been used
  std::uint64_t bytes_in;
  std::uint64_t bytes_out;
  std::uint64_t bytes_here;
  std::uint64_t nanoseconds_in_faults;
};

/// Thread safety: every call, from any thread. Objects go before their heap.
class Heap {
 public:
  /// Throws Error: a budget that is zero or more than this machine has, a space without room, rights that are missing.
  Heap(std::unique_ptr<Space> space, HeapOptions options);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// Zeros, if nothing lay there before. Throws std::bad_alloc when the space is used up.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t));
  void deallocate(void* begin) noexcept;

  /// Says how a range will be used: all pages of which it has a byte. Changes no contents. Throws UsageError when more
  /// is pinned than three quarters of the budget, or the range is not the heap's.
  void advise(const void* begin, std::size_t bytes, Hint hint);

  [[nodiscard]] HeapStatistics statistics() const;
  /// Whether system calls in which the kernel copies may touch what is not pinned.
  [[nodiscard]] bool serves_system_calls() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Lets containers of the standard library keep their elements in a heap.
template <class T>
class Allocator {
 public:
  using value_type = T;

  Allocator(Heap& heap) noexcept : heap_(&heap) {}  // NOLINT(google-explicit-constructor): far_vector<T> v(n, heap)
  template <class U>
  Allocator(const Allocator<U>& other) noexcept : heap_(&other.heap()) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(heap_->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* begin, std::size_t /*count*/) noexcept { heap_->deallocate(begin); }

  [[nodiscard]] Heap& heap() const noexcept { return *heap_; }
  template <class U>
  friend bool operator==(const Allocator& a, const Allocator<U>& b) noexcept {
    return &a.heap() == &b.heap();
  }

 private:
  Heap* heap_;
};

template <class T>
using far_vector = std::vector<T, Allocator<T>>;

}  // namespace farside::far
