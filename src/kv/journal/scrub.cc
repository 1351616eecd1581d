#include "kv/journal/scrub.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "kv/journal/file.h"

namespace farside::kv {

namespace {

constexpr std::uint64_t kAtOnce = std::uint64_t{8} << 20U;

/// False: it is not there.
bool forget_what_was_read(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file) ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  return file || errno != ENOENT;
}

}  // namespace

Scrubbed scrub(const JournalDirectory& directory, const Partition& partition, const ScrubPlace& place,
               std::optional<std::uint64_t> end) {
  Scrubbed result{.place = place};
  const std::string path = directory.path_of(place.file);
  if (!forget_what_was_read(path)) {
    result.is_at_end = true;
    return result;
  }
  try {
    JournalReader reader(path, place.file, partition);
    const std::uint64_t whole = std::min(end.value_or(reader.bytes()), reader.bytes());
    reader.go_to(std::min(place.offset, whole));
    const std::uint64_t enough = std::min(whole, reader.offset() + kAtOnce);
    while (reader.offset() < enough && result.flaw.empty()) {
      if (!reader.next()) result.flaw = "byte " + std::to_string(reader.offset()) + " is not as it was written";
    }
    if (end && reader.bytes() < *end) result.flaw = "it is shorter than it was";
    result.place.offset = reader.offset();
    result.is_at_end = reader.offset() >= whole;
  } catch (const Error& error) {
    if (forget_what_was_read(path)) result.flaw = error.failure().why;
    result.is_at_end = true;
  }
  return result;
}

}  // namespace farside::kv
