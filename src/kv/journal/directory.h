// directory.h — where a server's journal is: one directory, held by one process.
//
// Thread safety: none needed; nothing changes but the files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "farside/base/fd.h"

#include "base/file_lock.h"
#include "kv/journal/format.h"

namespace farside::kv {

/// The paths of all that is in it. Throws Error.
[[nodiscard]] std::vector<std::filesystem::path> entries_of(const std::filesystem::path& path);

class JournalDirectory {
 public:
  /// Makes it if it is missing (mode 0700), locks it, and removes what was never finished in it. Throws Error when
  /// another process has it, another user (but root) owns it, others may write to it and that cannot be changed, or it
  /// cannot be used.
  explicit JournalDirectory(std::filesystem::path path);

  [[nodiscard]] static std::string name_of(const JournalFileId& file);
  [[nodiscard]] std::string path_of(const JournalFileId& file) const;
  /// Numbers of the files of that kind, ascending.
  [[nodiscard]] std::vector<std::uint64_t> numbers_of(JournalFileKind kind) const;

  // The following return false, or nothing, with errno set, when it cannot be done. Any thread may call them.

  /// A file that has no name yet by which `numbers_of` finds it.
  [[nodiscard]] Fd create(const JournalFileId& file) const;
  /// Gives it its name, when its bytes are on the disk: after a crash there is all of it or nothing.
  [[nodiscard]] bool publish(const JournalFileId& file, const Fd& fd) const;
  /// Requires a file that was created and not published.
  void abandon(const JournalFileId& file) const;
  /// A log without entries, published.
  [[nodiscard]] Fd make_log(const JournalFileId& log, const Partition& partition) const;
  void remove(const JournalFileId& file) const;
  /// After true the disk has the names of all that is in it.
  [[nodiscard]] bool sync() const;

 private:
  std::filesystem::path path_;
  Fd fd_;
  std::optional<FileLock> lock_;
};

}  // namespace farside::kv
