// global_pointer.h — an element of a GlobalArray as a value, a pointer, an iterator. They stay valid wherever the
// elements move. Each use may throw Error when the element is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "farside/base/error.h"
#include "farside/comm/sendable.h"

namespace farside::gas {

template <comm::Sendable T>
class GlobalArray;

/// The element that `array[i]` names: read by conversion, written by assignment.
template <comm::Sendable T>
class GlobalReference {
 public:
  GlobalReference(GlobalArray<T>& array, std::uint64_t index) : array_(&array), index_(index) {}

  operator T() const {  // NOLINT(google-explicit-constructor): it stands for the element
    T value;
    GlobalArray<T>::expect(array_->get(index_, std::span(&value, 1)), "read an element");
    return value;
  }
  GlobalReference& operator=(const T& value) {
    GlobalArray<T>::expect(array_->put(index_, std::span(&value, 1)), "write an element");
    return *this;
  }
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): an element that is assigned to itself is read, then written
  GlobalReference& operator=(const GlobalReference& other) { return *this = static_cast<T>(other); }
  GlobalReference(const GlobalReference&) = default;
  ~GlobalReference() = default;

 private:
  GlobalArray<T>* array_;
  std::uint64_t index_;
};

/// A place in a GlobalArray, with a pointer's arithmetic. Valid while that object is.
template <comm::Sendable T>
class GlobalPointer {
 public:
  GlobalPointer() = default;
  GlobalPointer(GlobalArray<T>& array, std::uint64_t index) : array_(&array), index_(index) {}

  [[nodiscard]] std::uint64_t index() const noexcept { return index_; }
  [[nodiscard]] GlobalReference<T> operator*() const { return {*array_, index_}; }
  [[nodiscard]] GlobalReference<T> operator[](std::ptrdiff_t by) const { return *(*this + by); }

  GlobalPointer& operator+=(std::ptrdiff_t by) {
    index_ += static_cast<std::uint64_t>(by);
    return *this;
  }
  GlobalPointer& operator-=(std::ptrdiff_t by) { return *this += -by; }
  GlobalPointer& operator++() { return *this += 1; }
  GlobalPointer& operator--() { return *this -= 1; }
  friend GlobalPointer operator+(GlobalPointer pointer, std::ptrdiff_t by) { return pointer += by; }
  friend GlobalPointer operator-(GlobalPointer pointer, std::ptrdiff_t by) { return pointer -= by; }
  friend std::ptrdiff_t operator-(GlobalPointer a, GlobalPointer b) {
    return static_cast<std::ptrdiff_t>(a.index_ - b.index_);
  }
  friend auto operator<=>(const GlobalPointer&, const GlobalPointer&) = default;  // NOLINT(modernize-use-nullptr)

 private:
  GlobalArray<T>* array_ = nullptr;
  std::uint64_t index_ = 0;
};

/// Reads elements in order, a page at a time: an element is what it was when the first of its page was read.
template <comm::Sendable T>
class GlobalIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using pointer = const T*;
  using reference = const T&;

  GlobalIterator(GlobalArray<T>& array, std::uint64_t index) : array_(&array), index_(index) {}

  const T& operator*() const {
    if (index_ >= array_->size()) refuse();
    const std::uint64_t per_page = array_->elements_per_page();
    const std::uint64_t first = index_ / per_page * per_page;
    if (!page_ || first_ != first) {
      auto page = std::make_shared<std::vector<T>>(std::min(per_page, array_->size() - first));
      GlobalArray<T>::expect(array_->get(first, std::span(*page)), "read a page");
      page_ = std::move(page);
      first_ = first;
    }
    return (*page_)[index_ - first];
  }
  const T* operator->() const { return &**this; }
  GlobalIterator& operator++() {
    ++index_;
    return *this;
  }
  GlobalIterator operator++(int) {
    GlobalIterator before = *this;
    ++index_;
    return before;
  }
  friend bool operator==(const GlobalIterator& a, const GlobalIterator& b) { return a.index_ == b.index_; }

 private:
  [[noreturn]] void refuse() const {
    throw UsageError({"read an element of a global array", "the one at " + std::to_string(index_),
                      "it has " + std::to_string(array_->size()), "stop at end()"});
  }

  GlobalArray<T>* array_;
  std::uint64_t index_;
  mutable std::shared_ptr<const std::vector<T>> page_{};  // shared by copies, and never changed
  mutable std::uint64_t first_ = 0;
};

}  // namespace farside::gas

namespace farside::comm {

// Places in an array of this process.
template <Sendable T>
inline constexpr bool kNamesLocalMemory<gas::GlobalPointer<T>> = true;
template <Sendable T>
inline constexpr bool kNamesLocalMemory<gas::GlobalReference<T>> = true;

}  // namespace farside::comm
