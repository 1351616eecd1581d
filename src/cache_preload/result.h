// result.h — from the kernel's convention to libc's.
//
// Stands alone: the hooks of both preloaded libraries use it.
#pragma once

#include <cerrno>

#include <sys/types.h>

namespace farside::cache_preload {

/// -errno becomes -1 with errno set; anything else leaves errno alone.
inline ssize_t as_libc_does(ssize_t result) {
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace farside::cache_preload
