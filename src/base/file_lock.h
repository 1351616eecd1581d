// file_lock.h — the right to a file or a directory, which one process has at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "farside/base/fd.h"

namespace farside {

/// Holds a lock (flock) on an open file. The kernel takes it back however the process ends. The children of a fork
/// share it: it is free when the last of them has closed the file.
class FileLock {
 public:
  enum class Kind : std::uint8_t {
    exclusive,
    shared,  ///< any number of processes may hold it while none holds an exclusive one
  };

  /// Returns the lock on `file`, or nothing when another process holds it. Throws errno_error(tried, on, remedy) when
  /// the file cannot be locked. Does not wait. Requires an open file.
  [[nodiscard]] static std::optional<FileLock> try_lock(Fd file, Kind kind, std::string tried, std::string on,
                                                        std::string remedy = {});

  [[nodiscard]] const Fd& file() const noexcept { return file_; }
  /// The lock is held as long as the file, which the caller has then, or a copy of it is open in any process.
  [[nodiscard]] Fd take_file() noexcept { return std::move(file_); }
  /// Leaves the lock to a child that was forked since.
  void leave_to_child() noexcept { file_.reset(); }

 private:
  explicit FileLock(Fd file) noexcept : file_(std::move(file)) {}

  Fd file_;
};

}  // namespace farside
