// far_reads.h — reads by far memory's library, where it is preloaded too. Its pages may be evicted while a device
// writes into them, so it reads what a device may write into other memory, and copies.
//
// Stands alone: it is the interface between the two preloaded libraries.
#pragma once

#include <cstddef>
#include <cstdio>

#include <sys/types.h>

extern "C" {
/// The read operation of libc's streams: replaces _IO_file_read.
[[gnu::weak]] ssize_t farside_far_stream_read(FILE* stream, void* into, ssize_t bytes);

/// `pread` by system calls alone: no hook of another library is called, and errors are -errno.
[[gnu::weak]] ssize_t farside_far_read_at(int fd, void* into, std::size_t bytes, off_t offset);
}
