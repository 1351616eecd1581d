// transfers.h — copies from a descriptor to another inside one system call, out of the pool. See reads.h.
#pragma once

#include <cstddef>

#include <sys/types.h>

namespace farside::cache_preload {

ssize_t send_file(int to, int from, off_t* offset, std::size_t bytes);

ssize_t copy_range(int from, off_t* from_offset, int to, off_t* to_offset, std::size_t bytes);

}  // namespace farside::cache_preload
