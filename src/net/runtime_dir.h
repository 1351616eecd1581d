// runtime_dir.h — where a user's pools and jobs leave their sockets and secrets.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/file_lock.h"

namespace farside::net {

/// $FARSIDE_RUNTIME_DIR, else $XDG_RUNTIME_DIR/farside, else /tmp/farside-<uid>; made (mode 0700) when it is missing.
/// Throws Error when it belongs to another user or others may enter it.
[[nodiscard]] std::filesystem::path runtime_dir();

/// A directory in the runtime directory for one job, removed with it. Its lock goes with the process however that
/// ends, and the next job removes what has no lock.
class JobDir {
 public:
  JobDir();
  JobDir(const JobDir&) = delete;
  JobDir& operator=(const JobDir&) = delete;
  ~JobDir();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<FileLock> lock_;
};

}  // namespace farside::net
