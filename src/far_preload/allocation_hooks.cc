// The functions that allocate, in front of the allocator's: callers of large allocations are reported to farside far. A
// library of its own, which is preloaded only for a profile.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>

#include "allocated.h"

namespace {

/// The function of that name in the library behind this one; found once, by the constructor below unless it is called
/// before.
template <class Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  Function* get() {
    Function* known = function_.load(std::memory_order_relaxed);
    if (known == nullptr) [[unlikely]] {
      known = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      function_.store(known, std::memory_order_relaxed);
    }
    return known;
  }

 private:
  const char* const name_;
  std::atomic<Function*> function_{nullptr};
};

/// A small allocation goes straight on. Being inlined, it returns to where its caller does: the program.
template <class Function, class... Words>
[[gnu::always_inline]] inline void* allocate(Next<Function>& next, std::size_t bytes, Words... words) {
  if (bytes < farside_far_large_bytes) [[likely]]
    return next.get()(words...);
  void* const begin = next.get()(words...);
  if (begin != nullptr) farside_far_allocated(begin, bytes, __builtin_return_address(0));
  return begin;
}

constinit Next<void*(std::size_t)> next_malloc("malloc");
constinit Next<void*(std::size_t, std::size_t)> next_calloc("calloc");
constinit Next<void*(void*, std::size_t)> next_realloc("realloc");
constinit Next<void*(std::size_t, std::size_t)> next_memalign("memalign");
constinit Next<void*(std::size_t, std::size_t)> next_aligned_alloc("aligned_alloc");
constinit Next<int(void**, std::size_t, std::size_t)> next_posix_memalign("posix_memalign");
constinit Next<void*(void*, std::size_t, int, int, int, off_t)> next_mmap("mmap");

using Nothrow = const std::nothrow_t&;
constinit Next<void*(std::size_t)> next_new("_Znwm");
constinit Next<void*(std::size_t)> next_new_array("_Znam");
constinit Next<void*(std::size_t, Nothrow)> next_new_nothrow("_ZnwmRKSt9nothrow_t");
constinit Next<void*(std::size_t, Nothrow)> next_new_array_nothrow("_ZnamRKSt9nothrow_t");
constinit Next<void*(std::size_t, std::align_val_t)> next_new_aligned("_ZnwmSt11align_val_t");
constinit Next<void*(std::size_t, std::align_val_t)> next_new_array_aligned("_ZnamSt11align_val_t");
constinit Next<void*(std::size_t, std::align_val_t, Nothrow)> next_new_aligned_nothrow(
    "_ZnwmSt11align_val_tRKSt9nothrow_t");
constinit Next<void*(std::size_t, std::align_val_t, Nothrow)> next_new_array_aligned_nothrow(
    "_ZnamSt11align_val_tRKSt9nothrow_t");

// The program's first call may be made while another thread is in dlopen, and waits for it: dlsym would wait for that
// one.
[[gnu::constructor]] void find_all() {
  const auto find = [](auto&... each) { (each.get(), ...); };
  find(next_malloc, next_calloc, next_realloc, next_memalign, next_aligned_alloc, next_posix_memalign, next_mmap);
  find(next_new, next_new_array, next_new_nothrow, next_new_array_nothrow, next_new_aligned, next_new_array_aligned,
       next_new_aligned_nothrow, next_new_array_aligned_nothrow);
}

// Its mappings are where malloc and the like take theirs from.
bool is_allocator(void* caller) {
  dl_find_object of_caller;
  dl_find_object of_allocator;
  return _dl_find_object(caller, &of_caller) == 0 &&
         _dl_find_object(reinterpret_cast<void*>(next_malloc.get()), &of_allocator) == 0 &&
         of_caller.dlfo_link_map == of_allocator.dlfo_link_map;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* malloc(size_t bytes) noexcept { return allocate(next_malloc, bytes, bytes); }

void* calloc(size_t count, size_t bytes) noexcept {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) all = 0;  // it will be refused
  return allocate(next_calloc, all, count, bytes);
}

void* realloc(void* begin, size_t bytes) noexcept { return allocate(next_realloc, bytes, begin, bytes); }

void* memalign(size_t alignment, size_t bytes) noexcept { return allocate(next_memalign, bytes, alignment, bytes); }

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return allocate(next_aligned_alloc, bytes, alignment, bytes);
}

int posix_memalign(void** begin, size_t alignment, size_t bytes) noexcept {
  const int error = next_posix_memalign.get()(begin, alignment, bytes);
  if (error == 0 && bytes >= farside_far_large_bytes) farside_far_allocated(*begin, bytes, __builtin_return_address(0));
  return error;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  void* const begin = next_mmap.get()(address, bytes, protection, flags, file, offset);
  void* const caller = __builtin_return_address(0);
  if (begin != MAP_FAILED && bytes >= farside_far_large_bytes && (flags & MAP_ANONYMOUS) != 0 &&
      !is_allocator(caller)) {
    farside_far_allocated(begin, bytes, caller);
  }
  return begin;
}

[[gnu::alias("mmap")]] void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
                                    off_t offset) noexcept;

}  // extern "C"

void* operator new(size_t bytes) { return allocate(next_new, bytes, bytes); }
void* operator new[](size_t bytes) { return allocate(next_new_array, bytes, bytes); }
void* operator new(size_t bytes, Nothrow nothrow) noexcept { return allocate(next_new_nothrow, bytes, bytes, nothrow); }
void* operator new[](size_t bytes, Nothrow nothrow) noexcept {
  return allocate(next_new_array_nothrow, bytes, bytes, nothrow);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(next_new_aligned, bytes, bytes, alignment);
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate(next_new_array_aligned, bytes, bytes, alignment);
}
void* operator new(size_t bytes, std::align_val_t alignment, Nothrow nothrow) noexcept {
  return allocate(next_new_aligned_nothrow, bytes, bytes, alignment, nothrow);
}
void* operator new[](size_t bytes, std::align_val_t alignment, Nothrow nothrow) noexcept {
  return allocate(next_new_array_aligned_nothrow, bytes, bytes, alignment, nothrow);
}
#pragma GCC visibility pop
