// stream_operations.h — what libc's streams call inside libc, where no function of ours stands in front.
//
// glibc calls a stream's operations through tables that it exports, and checks that a stream's table is one of them. So
// the tables stay where they are, and words of them change. When libc is not as we know it, nothing does. Tables and
// operations are looked up in libc: when a program names one, the linker gives the name to a copy that libc never uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <dlfcn.h>
#include <sys/mman.h>

#include "next.h"
#include "system_call.h"

namespace farside::cache_preload {

using StreamRead = ssize_t(FILE* stream, void* into, ssize_t bytes);
using StreamClose = int(FILE* stream);

inline constinit Next<StreamRead> next_stream_read("_IO_file_read");
inline constinit Next<StreamClose> next_stream_close("_IO_file_close");

/// Returns whether `known` was an operation of all streams, narrow and wide, which is `ours` now.
template <class Function>
bool replace_stream_operation(Function* known, Function* ours) {
  constexpr std::size_t kOperations = 21;
  constexpr std::uintptr_t kPageBytes = 4096;
  if (known == nullptr) return false;
  bool all = true;
  for (const char* const name : {"_IO_file_jumps", "_IO_wfile_jumps"}) {
    void** const table = static_cast<void**>(dlsym(RTLD_NEXT, name));
    bool found = false;
    for (void** place = table; table != nullptr && place < table + kOperations; ++place) {
      if (*place != reinterpret_cast<void*>(known)) continue;
      const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(place) & ~(kPageBytes - 1);
      if (system_call(SYS_mprotect, page, kPageBytes, PROT_READ | PROT_WRITE) != 0) break;
      __atomic_store_n(place, reinterpret_cast<void*>(ours), __ATOMIC_RELEASE);
      system_call(SYS_mprotect, page, kPageBytes, PROT_READ);
      found = true;
      break;
    }
    all = all && found;
  }
  return all;
}

}  // namespace farside::cache_preload
