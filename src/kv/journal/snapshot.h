// snapshot.h — what is left of all changes up to now (store_copy.h), written a little at a time while changes go on.
// Changes since the beginning are in the log as well: recovery makes them again, and what is there already it leaves as
// it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kv/journal/file.h"
#include "kv/server/store_copy.h"

namespace farside::kv {

class Snapshot {
 public:
  /// `file` is new. The log of the same number begins after entry `last`, and nothing is in that log yet.
  Snapshot(JournalFile file, const Store& store, std::uint64_t last);
  Snapshot(const Snapshot&) = delete;  // its copy refers to it
  Snapshot& operator=(const Snapshot&) = delete;

  /// Writes on, for less than a few milliseconds. False: the file cannot be written.
  bool step();
  [[nodiscard]] bool is_written() const noexcept { return is_written_; }
  [[nodiscard]] const JournalFile& file() const noexcept { return file_; }

 private:
  void end();

  JournalFile file_;
  const Store& store_;
  const std::uint64_t last_;
  StoreCopy copy_;
  bool is_written_ = false;
};

}  // namespace farside::kv
