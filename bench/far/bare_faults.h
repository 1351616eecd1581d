// bare_faults.h — the least that a fault served in the faulting thread can cost: SIGBUS, UFFDIO_COPY, and back.
#pragma once

#include <cstddef>
#include <functional>

#include "farside/base/fd.h"

namespace farside::bench {

/// One at a time in a process.
class BareFaults {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  /// Before a page is put in its place: fills the buffer that it is copied from.
  using Fill = std::function<void(std::size_t page)>;

  BareFaults(std::size_t pages, std::byte* buffer, Fill fill);
  ~BareFaults();
  BareFaults(const BareFaults&) = delete;
  BareFaults& operator=(const BareFaults&) = delete;

  [[nodiscard]] std::byte* base() const { return base_; }
  /// Takes all pages away.
  void drop() const;
  /// Of the signal's handler.
  void serve(void* address) const;

 private:
  std::size_t bytes_;
  std::byte* buffer_;
  Fill fill_;
  Fd userfault_;
  std::byte* base_ = nullptr;
};

}  // namespace farside::bench
