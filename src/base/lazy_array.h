// lazy_array.h — zeros, of which only what is written to takes memory.
#pragma once

#include <cstddef>
#include <utility>

#include <sys/mman.h>

#include "farside/base/error.h"

namespace farside {

template <class T>
class LazyArray {
 public:
  explicit LazyArray(std::size_t count) : count_(count) {
    void* const place =
        ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) {
      throw errno_error("map", "a table", "raise ulimit -v, or sysctl vm.max_map_count");
    }
    items_ = static_cast<T*>(place);
  }
  ~LazyArray() {
    if (items_ != nullptr) ::munmap(items_, count_ * sizeof(T));
  }
  LazyArray(LazyArray&& other) noexcept : items_(std::exchange(other.items_, nullptr)), count_(other.count_) {}
  LazyArray& operator=(LazyArray&&) = delete;
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;

  [[nodiscard]] T& operator[](std::size_t i) { return items_[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return items_[i]; }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  T* items_ = nullptr;
  std::size_t count_;
};

}  // namespace farside
