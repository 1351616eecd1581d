// snapshot.h — what is left of all changes up to now, written a little at a time while changes go on.
//
// Prepared versions, and the ends of transactions, are written when it begins; then the newest committed version of
// each key, as it is when its turn comes. Changes since the beginning are in the log as well: recovery makes them
// again, and what is there already it leaves as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kv/journal/file.h"
#include "kv/server/store.h"

namespace farside::kv {

class Snapshot {
 public:
  /// `file` is new. The log of the same number begins after entry `last`, and nothing is in that log yet.
  Snapshot(JournalFile file, const Store& store, std::uint64_t last);

  /// Writes on, for less than a few milliseconds. False: the file cannot be written.
  bool step();
  [[nodiscard]] bool is_written() const noexcept { return is_written_; }
  [[nodiscard]] const JournalFile& file() const noexcept { return file_; }

 private:
  void add_prepared();
  void add_newer(std::string_view key, const Timestamp& prepared);
  void add_version(std::span<const std::byte> record);
  void add_ended();
  void end();

  JournalFile file_;
  const Store& store_;
  const std::uint64_t last_;
  std::uint64_t cursor_ = 0;  // of the index
  bool is_written_ = false;
};

}  // namespace farside::kv
