#include "node/files/file_source.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "base/assert.h"
#include "node/files/stores.h"

namespace farside::node {

std::uint64_t FileSource::load(const cache::BlockKey& key, LocalSpan into) {
  was_read_ = true;
  const std::uint64_t begin = key.index * block_bytes_;
  assert_that(begin < key.file.bytes, "a block that is loaded begins within its file");
  const std::uint64_t wanted = std::min(block_bytes_, key.file.bytes - begin);
  assert_that(wanted <= into.bytes(), "a block fits in the place that it is loaded into");
  if (!stores_will_show(file_, key.file, times_, begin, wanted)) return kFailed;
  std::uint64_t done = 0;
  while (done < wanted) {
    const ssize_t got =
        ::pread(file_.get(), into.adapter_data() + done, wanted - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return kFailed;  // an error, or the file was cut meanwhile
    done += static_cast<std::uint64_t>(got);
  }
  return file_systems_.identify(file_) == key.file ? wanted : kFailed;
}

}  // namespace farside::node
