// writers.h — what in this process may change a file behind the back of its cached descriptors.
#pragma once

#include <cstdint>

namespace farside::cache_preload {

/// `fd` was opened for writing: from now on, each read of another descriptor of the file looks at the file first.
void note_writer(int fd);

/// May be true although no descriptor ever wrote the file; then reads cost a look more.
[[nodiscard]] bool may_be_written_here(std::uint64_t inode);

}  // namespace farside::cache_preload
