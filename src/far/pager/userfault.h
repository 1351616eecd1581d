// userfault.h — owns a userfaultfd: the kernel leaves the missing pages of a range, and writes to protected ones, to
// us.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "farside/base/fd.h"

namespace farside::far {

/// Selects the thread that is told of a fault.
enum class FaultService {
  automatic,  ///< the faulting thread where that works, otherwise a handler
  in_thread,  ///< the faulting thread, by SIGBUS: fast; system calls that touch an absent page get EFAULT
  handler,    ///< a thread of its own: works wherever memory is touched, in the kernel too
};

class Userfault {
 public:
  /// `service` is not automatic. Throws Error when the kernel refuses, with what would let it.
  explicit Userfault(FaultService service);
  /// One that another process made and sent: of its memory, served by a handler. Throws Error when it is none, or
  /// was used before.
  explicit Userfault(Fd received);

  /// Throws Error.
  void watch(std::byte* base, std::size_t bytes) const;

  // Each of these wakes the threads that wait for the range. 0, or why not: ENOENT when the range is no longer ours,
  // EEXIST when something is there, ESRCH when the process is gone.
  [[nodiscard]] int copy(std::byte* to, const std::byte* from, std::size_t bytes, bool write_protected) const;
  [[nodiscard]] int map_zeros(std::byte* to, std::size_t bytes) const;
  [[nodiscard]] int protect(std::byte* base, std::size_t bytes) const;
  [[nodiscard]] int unprotect(std::byte* base, std::size_t bytes) const;
  /// Lets them try again.
  void wake(std::byte* base, std::size_t bytes) const;

  struct Fault {
    std::byte* address;
    bool is_write;
  };
  /// For a handler: takes the next fault that waits, if any does. Never sleeps.
  [[nodiscard]] std::optional<Fault> next() const;
  [[nodiscard]] int descriptor() const { return fd_.get(); }

 private:
  void agree(std::uint64_t features) const;
  [[nodiscard]] int change_protection(std::byte* base, std::size_t bytes, bool on) const;

  FaultService service_;
  Fd fd_;
};

}  // namespace farside::far
