// scrub.h — whether the files of a journal are on the disk as they were written, looked at a little at a time while
// they are in use: a disk that forgets says so only to those who read.
//
// Thread safety: one thread at a time, which need not be that of the journal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kv/journal/directory.h"
#include "kv/journal/format.h"

namespace farside::kv {

/// How far a scrub has come: entries before `offset` of `file` are as they were written.
struct ScrubPlace {
  JournalFileId file{};
  std::uint64_t offset = sizeof(JournalFileHead);
};

struct Scrubbed {
  ScrubPlace place;
  bool is_at_end = false;  ///< of the file; true also where it is gone, since a snapshot has replaced it
  std::string flaw{};      ///< what is not as it was written; empty: nothing
};

/// Reads on from `place`, for some 8 MiB, not beyond `end`, where an entry ends; no end: to the end of the file. Asks
/// the disk, not the system's memory.
[[nodiscard]] Scrubbed scrub(const JournalDirectory& directory, const Partition& partition, const ScrubPlace& place,
                             std::optional<std::uint64_t> end);

}  // namespace farside::kv
